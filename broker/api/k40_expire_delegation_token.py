"""ExpireDelegationToken (key 40), versions 1-2: a delegation token ends sooner, for a negative period at once (KIP-48).

Promise: its owner and its renewers may; a token that was ended lets nobody in any more, and what is answered without an error is durable.
Source: KAFKA KafkaApis.handleExpireTokenRequest, DelegationTokenControlManager.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.token_end import change_end
from ottla.broker.controller.delegation_tokens import expire_token
from ottla.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


async def handle(ctx: Context, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """See `change_end`."""
    return await change_end(ctx, request, expire_token, ExpireDelegationTokenResponse)

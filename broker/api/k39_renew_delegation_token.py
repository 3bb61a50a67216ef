"""RenewDelegationToken (key 39), versions 1-2: a delegation token lasts longer (KIP-48).

Promise: its owner and its renewers may, until the last moment that it was given at its beginning; what is answered without an error is
durable.
Source: KAFKA KafkaApis.handleRenewTokenRequest, DelegationTokenControlManager.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.token_end import change_end
from ottla.broker.controller.delegation_tokens import renew_token
from ottla.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


async def handle(ctx: Context, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """See `change_end`."""
    return await change_end(ctx, request, renew_token, RenewDelegationTokenResponse)

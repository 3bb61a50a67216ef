"""ExpireDelegationToken (key 40), versions 1-2: a delegation token ends sooner, for a negative period at once (KIP-48).

Promise: its owner and its renewers may; a token that was ended lets nobody in any more, and what is answered without an error is durable.
Source: KAFKA KafkaApis.handleExpireTokenRequest, DelegationTokenControlManager.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.token_rules import NO_TIME, check_may_ask
from ottla.broker.controller.delegation_tokens import expire_token, rules_of
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


async def handle(ctx: Context, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Of a broker and of a controller."""
    services, requester = ctx.services, ctx.peer.principal
    try:
        check_may_ask(ctx.peer)
    except Rejected as error:
        return ExpireDelegationTokenResponse(error.code, NO_TIME)
    if services.forwarding is not None:
        from ottla.broker.api.forwarding import handle as forward  # noqa: PLC0415 # only a member of a cluster needs it

        forwarded: ExpireDelegationTokenResponse = await forward(ctx, request)
        return forwarded
    rules, topics, now_ms = rules_of(services.settings), services.topics, services.clock.now_ms()
    try:
        expires_ms = await services.topic_service.decide(lambda: expire_token(topics.image, rules, requester, request, now_ms))
    except Rejected as error:
        return ExpireDelegationTokenResponse(error.code)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)

"""The common part of RenewDelegationToken and ExpireDelegationToken (KIP-48).

The handlers of both APIs check whether the client may use tokens, forward the request to the controller, and respond with the new expiry
time when it is durable.
Source: KAFKA KafkaApis.handleRenewTokenRequest, handleExpireTokenRequest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.broker.api.context import Context
from ottla.broker.api.forwarding import forward
from ottla.broker.api.services import ClusterServices, ControllerServices
from ottla.broker.api.token_rules import NO_TIME, check_token_requests_allowed
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.controller.delegation_tokens import TokenRules, rules_of
from ottla.broker.core.effects import Effects
from ottla.broker.core.principal import Principal
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ottla.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

RequestT = TypeVar("RequestT", RenewDelegationTokenRequest, ExpireDelegationTokenRequest)
ResponseT = TypeVar("ResponseT", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)
Decide = Callable[[MetadataImage, TokenRules, Principal, RequestT, int], Effects[MetadataRecord, int]]


async def forward_expiry_change(ctx: Context[ClusterServices], request: RequestT, response: type[ResponseT]) -> ResponseT:
    """Check whether the client may use delegation tokens, and forward its RenewDelegationToken or ExpireDelegationToken request to the
    controller.
    """
    try:
        check_token_requests_allowed(ctx.peer)
    except Rejected as error:
        return response(error.code, NO_TIME)
    return await forward(ctx, request, response)


async def decide_expiry_change(
    ctx: Context[ControllerServices], request: RequestT, decide: Decide[RequestT], response: type[ResponseT]
) -> ResponseT:
    """Check whether the client may use delegation tokens, and run `decide`, which renews or expires the token. Return a `response` with the
    token's new expiry time or the error.
    """
    services, requester = ctx.services, ctx.peer.principal
    try:
        check_token_requests_allowed(ctx.peer)
    except Rejected as error:
        return response(error.code, NO_TIME)
    rules, now_ms = rules_of(services.settings), services.clock.now_ms()
    try:
        expires_ms = await services.active.run(lambda state: decide(state.image, rules, requester, request, now_ms))
    except Rejected as error:
        return response(error.code)
    return response(expiry_timestamp_ms=expires_ms)

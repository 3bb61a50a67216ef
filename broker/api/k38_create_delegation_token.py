"""CreateDelegationToken (key 38), versions 1-3: something with which others act for a user, for a while (KIP-48, KIP-373).

Promises: a token that is answered without an error is durable, and whoever has its HMAC logs in as its owner until it expires; who was let
in by a token gets no other. A token for somebody else needs CREATE_TOKENS of that user.
Source: KAFKA KafkaApis.handleCreateTokenRequest, ControllerApis.
"""

from __future__ import annotations

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.token_rules import NO_TIME, check_may_ask
from ottla.broker.controller.delegation_tokens import check_renewers, create_token, owner_of, rules_of
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.principal import Principal
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k38_create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse


async def handle(ctx: Context, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Of a broker and of a controller."""
    services, requester = ctx.services, ctx.peer.principal
    owner = owner_of(request, requester)
    answer = CreateDelegationTokenResponse(principal_type=owner.kind, principal_name=owner.name)
    if ctx.version >= 3:
        answer.token_requester_principal_type, answer.token_requester_principal_name = requester
    try:
        _check(ctx, request, owner)
    except Rejected as error:
        answer.error_code = error.code
        answer.issue_timestamp_ms = answer.expiry_timestamp_ms = answer.max_timestamp_ms = NO_TIME
        return answer
    if services.forwarding is not None:
        from ottla.broker.api.forwarding import handle as forward  # noqa: PLC0415 # only a member of a cluster needs it

        forwarded: CreateDelegationTokenResponse = await forward(ctx, request)
        return forwarded
    rules, topics, now_ms = rules_of(services.settings), services.topics, services.clock.now_ms()
    try:
        token = await services.topic_service.decide(
            lambda: create_token(topics.image, rules, requester, request, now_ms, random_bytes=services.random_bytes)
        )
    except Rejected as error:
        answer.error_code = error.code
        return answer
    record = token.record
    answer.token_id, answer.hmac = record.token_id, token.hmac
    answer.issue_timestamp_ms, answer.max_timestamp_ms = record.issue_timestamp, record.max_timestamp
    answer.expiry_timestamp_ms = record.expiration_timestamp
    return answer


def _check(ctx: Context, request: CreateDelegationTokenRequest, owner: Principal) -> None:
    """Raises Rejected."""
    check_may_ask(ctx.peer)
    if request.owner_principal_name and request.owner_principal_type is None:
        raise Rejected(ErrorCode.INVALID_REQUEST)  # Kafka fails by accident
    if owner != ctx.peer.principal and not allowed(ctx, Operation.CREATE_TOKENS, Resource.USER, str(owner)):
        raise Rejected(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if isinstance(ctx, Context):  # a controller looks when it decides
        check_renewers(request)

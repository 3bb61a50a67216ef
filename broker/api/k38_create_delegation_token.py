"""CreateDelegationToken (key 38), versions 1-3: creates a token with which others act as a user for a limited time (KIP-48, KIP-373).

Promises: a token without an error in the response is durable. A client that knows the token's HMAC can authenticate as the token's owner
until the token expires. A client that authenticated with a token cannot create one. A token for another user requires CREATE_TOKENS on that
user.
Source: KAFKA KafkaApis.handleCreateTokenRequest, ControllerApis.
"""

from __future__ import annotations

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.forwarding import forward
from ottla.broker.api.served_api import Forwarded, ListenerType
from ottla.broker.api.services import ClusterServices, ControllerServices, NodeServices
from ottla.broker.api.token_rules import NO_TIME, check_token_requests_allowed
from ottla.broker.controller.delegation_tokens import check_renewers, create_token, owner_of, rules_of
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.principal import Principal
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k38_create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

API = Api(CreateDelegationTokenRequest, forwarded=Forwarded.IN_PART, array_limits={"renewers": 1_000})


@API.on_broker()
async def handle(ctx: Context[ClusterServices], request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Check whether the client may create the delegation token, and forward the request to the controller. Return the response."""
    answer = _checked_response(ctx, request)
    if answer.error_code == ErrorCode.NONE:
        answer = await forward(ctx, request, CreateDelegationTokenResponse)
    return answer


@API.on_controller()
async def handle_on_controller(ctx: Context[ControllerServices], request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Create the delegation token. Return it with its HMAC when it is durable, or an error if the client may not create it."""
    services, requester = ctx.services, ctx.peer.principal
    answer = _checked_response(ctx, request)
    if answer.error_code != ErrorCode.NONE:
        return answer
    rules, now_ms = rules_of(services.settings), services.clock.now_ms()
    try:
        token = await services.active.run(
            lambda state: create_token(state.image, rules, requester, request, now_ms, random_bytes=services.random_bytes)
        )
    except Rejected as error:
        answer.error_code = error.code
        return answer
    record = token.record
    answer.token_id, answer.hmac = record.token_id, token.hmac
    answer.issue_timestamp_ms, answer.max_timestamp_ms = record.issue_timestamp, record.max_timestamp
    answer.expiry_timestamp_ms = record.expiration_timestamp
    return answer


def _checked_response(ctx: Context[NodeServices], request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Return a CreateDelegationToken response without a token, with the error if the client may not create the token, otherwise NONE."""
    requester = ctx.peer.principal
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


def _check(ctx: Context[NodeServices], request: CreateDelegationTokenRequest, owner: Principal) -> None:
    """Raise Rejected if the client may not create the delegation token for `owner`, or the request is invalid."""
    check_token_requests_allowed(ctx.peer)
    if request.owner_principal_name and request.owner_principal_type is None:
        raise Rejected(ErrorCode.INVALID_REQUEST)  # Kafka does not check this, and fails with an internal error
    if owner != ctx.peer.principal and not allowed(ctx, Operation.CREATE_TOKENS, Resource.USER, str(owner)):
        raise Rejected(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if ctx.services.listener_type is ListenerType.BROKER:  # a controller checks this when it decides
        check_renewers(request)

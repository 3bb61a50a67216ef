"""FindCoordinator (key 10), versions 0-6: who looks after a group.

Promises: the one broker is every group's coordinator, under the address that the client dialled or the one advertised to it. The offsets
topic is created by
the first question, and that question is answered too: nobody is sent away to ask again (Kafka answers COORDINATOR_NOT_AVAILABLE meanwhile).

Deviations: a transactional id is refused until there are transactions, with the error of InitProducerId, on which clients give up at once.
Share groups and unknown key types are INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import IntEnum

from broker.api.context import Context
from broker.core.rejected import Rejected
from protocol.error_codes import ErrorCode
from protocol.messages.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

NO_NODE = -1


class KeyType(IntEnum):
    """What a coordinator key names."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


def handle(ctx: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Answer at once, but for the very first question about a group."""
    if request.key_type != KeyType.GROUP:
        return _refusal(ctx, request, *_reason(request.key_type))
    if ctx.services.groups.has_topic:
        return _found(ctx, request)
    return _create_then_find(ctx, request)


async def _create_then_find(ctx: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    try:
        await ctx.services.groups.create_topic()
    except Rejected as rejected:
        return _refusal(ctx, request, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(rejected))
    return _found(ctx, request)


def _reason(key_type: int) -> tuple[ErrorCode, str]:
    if key_type == KeyType.TRANSACTION:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "this broker has no transactions yet"
    return ErrorCode.INVALID_REQUEST, f"this broker has no coordinators of type {key_type}"


def _found(ctx: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    host, port = ctx.connection.broker_address
    node_id = ctx.services.node_id
    if ctx.version >= 4:
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key, node_id, host, port, error_message="NONE") for key in request.coordinator_keys]
        )
    return FindCoordinatorResponse(error_message="NONE", node_id=node_id, host=host, port=port)


def _refusal(ctx: Context, request: FindCoordinatorRequest, error: ErrorCode, message: str) -> FindCoordinatorResponse:
    if ctx.version >= 4:
        return FindCoordinatorResponse(coordinators=[Coordinator(key, NO_NODE, "", -1, error, message) for key in request.coordinator_keys])
    return FindCoordinatorResponse(error_code=error, error_message=message, node_id=NO_NODE, port=-1)

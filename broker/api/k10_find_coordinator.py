"""FindCoordinator (key 10), versions 0-6: the coordinator of a group or of a transactional id.

Promises: on a standalone node the first request creates the coordinator's internal topic and still gets the coordinator (Kafka answers
COORDINATOR_NOT_AVAILABLE meanwhile). The address is the advertised one, or else the one to which the client connected. An empty
transactional id is INVALID_REQUEST.

Deviation: share groups and unknown key types are INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from enum import IntEnum
from typing import Any

from ottla.broker.api.access import NOBODY, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.java_hash import partition_of
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.shards import Shards
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

API = Api(FindCoordinatorRequest, splits=(Split("coordinator_keys", "coordinators"),))

NO_NODE = -1


class KeyType(IntEnum):
    """The type of a coordinator key."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_RESOURCES: dict[int, Resource] = {KeyType.GROUP: Resource.GROUP, KeyType.TRANSACTION: Resource.TRANSACTIONAL_ID}
_DENIALS: dict[int, tuple[ErrorCode, str]] = {
    KeyType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    KeyType.TRANSACTION: (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional Id authorization failed."),
}
_TOPICS: dict[int, str] = {KeyType.GROUP: CONSUMER_OFFSETS, KeyType.TRANSACTION: TRANSACTION_STATE}


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Return the coordinators; create the internal topic if there is none."""
    shards: Shards[Any]
    if request.key_type == KeyType.GROUP:
        shards = ctx.services.groups.shards
    elif request.key_type == KeyType.TRANSACTION:
        shards = ctx.services.txns.shards
    else:
        return _refusal(ctx, request, NOBODY, ErrorCode.INVALID_REQUEST, f"this broker has no coordinators of type {request.key_type}")
    keys = request.coordinator_keys if ctx.version >= 4 else [request.key]
    hidden = denied(ctx, Operation.DESCRIBE, _RESOURCES[request.key_type], keys)
    if shards.exist or all(key in hidden for key in keys):
        return _found(ctx, request, hidden)
    if ctx.services.cluster.decides:
        return _create_then_find(ctx, request, shards, hidden)
    ctx.services.topic_maker.begin_auto_create([_TOPICS[request.key_type]])
    return _refusal(ctx, request, hidden, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's topic is being created")


async def _create_then_find(
    ctx: Context[CoordinationServices], request: FindCoordinatorRequest, shards: Shards[Any], hidden: Set[str]
) -> FindCoordinatorResponse:
    try:
        await shards.create_topic()
    except Rejected as rejected:
        return _refusal(ctx, request, hidden, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(rejected))
    return _found(ctx, request, hidden)


def _found(ctx: Context[CoordinationServices], request: FindCoordinatorRequest, hidden: Set[str]) -> FindCoordinatorResponse:
    return _response(ctx, request, hidden, lambda key: _coordinator(ctx, request.key_type, key))


def _response(
    ctx: Context[CoordinationServices], request: FindCoordinatorRequest, hidden: Set[str], find: Callable[[str], Coordinator]
) -> FindCoordinatorResponse:
    def answer(key: str) -> Coordinator:
        if key not in hidden:
            return find(key)
        code, text = _DENIALS[request.key_type]
        return Coordinator(key, NO_NODE, "", -1, code, "" if ctx.version >= 4 else text)

    if ctx.version >= 4:
        return FindCoordinatorResponse(coordinators=[answer(key) for key in request.coordinator_keys])
    found = answer(request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code, error_message=found.error_message, node_id=found.node_id, host=found.host, port=found.port
    )


def _coordinator(ctx: Context[CoordinationServices], key_type: int, key: str) -> Coordinator:
    if key_type == KeyType.TRANSACTION and not key:
        return Coordinator(key, NO_NODE, "", -1, ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    services = ctx.services
    topic = services.topics.topic(_TOPICS[key_type])
    count = 0 if topic is None else len(topic.partitions)
    found = services.cluster.coordinator(topic, partition_of(key, count), ctx.peer.dialled) if topic is not None and count else None
    if found is None:
        return Coordinator(key, NO_NODE, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's partition has no leader")
    # Kafka's message for "no error": "NONE" in versions with a single key, empty in versions with several.
    return Coordinator(key, found.node_id, found.host, found.port, error_message="" if ctx.version >= 4 else "NONE")


def _refusal(
    ctx: Context[CoordinationServices], request: FindCoordinatorRequest, hidden: Set[str], error: ErrorCode, message: str
) -> FindCoordinatorResponse:
    return _response(ctx, request, hidden, lambda key: Coordinator(key, NO_NODE, "", -1, error, message))

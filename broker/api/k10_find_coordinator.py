"""FindCoordinator (key 10), versions 0-6: the coordinator of a group, of a transactional id or of a share partition's state.

Promises:
* On a standalone node the first request creates the coordinator's internal topic and gets the coordinator in its response (Kafka responds
  with COORDINATOR_NOT_AVAILABLE meanwhile).
* The address is the coordinator's advertised one or, if none is configured, the one to which the client connected.
* An empty transactional id is INVALID_REQUEST.
* From version 6 on, brokers find the coordinators of share partitions (KIP-932). This requires CLUSTER_ACTION on the cluster. A key that
  does not have the form `group:topic id:partition` is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from enum import IntEnum
from typing import Any

from ottla.broker.api.access import NOBODY, allowed_of_cluster, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.java_hash import partition_of
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.shards import Shards
from ottla.broker.share.persister import SharePartitionKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

API = Api(FindCoordinatorRequest, splits=(Split("coordinator_keys", "coordinators"),))

NO_NODE = -1
SHARE_SINCE = 6
"""The first FindCoordinator version that finds the coordinators of share partitions (KIP-932)."""


class KeyType(IntEnum):
    """The type of the keys in a FindCoordinator request: group ids, transactional ids or share partitions."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_RESOURCES: dict[int, Resource] = {KeyType.GROUP: Resource.GROUP, KeyType.TRANSACTION: Resource.TRANSACTIONAL_ID}
_TOPICS: dict[int, str] = {KeyType.GROUP: CONSUMER_OFFSETS, KeyType.TRANSACTION: TRANSACTION_STATE, KeyType.SHARE: SHARE_GROUP_STATE}
_DENIALS: dict[int, tuple[ErrorCode, str]] = {
    KeyType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    KeyType.TRANSACTION: (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional Id authorization failed."),
}


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Return the coordinator of each key. If the coordinators' internal topic (such as `__consumer_offsets`) does not exist, create it
    first."""
    shards: Shards[Any]
    if request.key_type == KeyType.GROUP:
        shards = ctx.services.groups.shards
    elif request.key_type == KeyType.TRANSACTION:
        shards = ctx.services.txns.shards
    elif request.key_type == KeyType.SHARE and ctx.version >= SHARE_SINCE:
        if not allowed_of_cluster(ctx, Operation.CLUSTER_ACTION):
            return _refusal(ctx, request, NOBODY, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        shards = ctx.services.share.state.shards
    else:
        return _refusal(ctx, request, NOBODY, ErrorCode.INVALID_REQUEST, f"this broker has no coordinators of type {request.key_type}")
    keys = request.coordinator_keys if ctx.version >= 4 else [request.key]
    resource = _RESOURCES.get(request.key_type)
    hidden = NOBODY if resource is None else denied(ctx, Operation.DESCRIBE, resource, keys)
    malformed = {key for key in keys if _share_key(key) is None} if request.key_type == KeyType.SHARE else NOBODY
    if shards.exist or all(key in hidden or key in malformed for key in keys):
        return _found(ctx, request, hidden)
    return _create_then_find(ctx, request, shards, hidden)


async def _create_then_find(
    ctx: Context[CoordinationServices], request: FindCoordinatorRequest, shards: Shards[Any], hidden: Set[str]
) -> FindCoordinatorResponse:
    """Create the coordinators' internal topic (such as `__consumer_offsets`), then return the coordinators. A cluster broker only requests
    the creation from the controller; its response is COORDINATOR_NOT_AVAILABLE, after which the client retries, as with Kafka."""
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


def _share_key(key: str) -> SharePartitionKey | None:
    try:
        return SharePartitionKey.parse(key)
    except ValueError:
        return None


def _coordinator(ctx: Context[CoordinationServices], key_type: int, key: str) -> Coordinator:
    if key_type == KeyType.TRANSACTION and not key:
        return Coordinator(key, NO_NODE, "", -1, ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    hashed = key
    if key_type == KeyType.SHARE:
        if (share_key := _share_key(key)) is None:
            return Coordinator(key, NO_NODE, "", -1, ErrorCode.INVALID_REQUEST, "the key is not a group, a topic id and a partition")
        hashed = share_key.coordinator_key
    services = ctx.services
    topic = services.topics.topic(_TOPICS[key_type])
    count = 0 if topic is None else len(topic.partitions)
    found = (
        services.cluster.coordinator(topic, partition_of(hashed, count), ctx.peer.client_listener) if topic is not None and count else None
    )
    if found is None:
        return Coordinator(key, NO_NODE, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's partition has no leader")
    # Kafka's message for "no error": "NONE" in versions with a single key, empty in versions with several.
    return Coordinator(key, found.node_id, found.host, found.port, error_message="" if ctx.version >= 4 else "NONE")


def _refusal(
    ctx: Context[CoordinationServices], request: FindCoordinatorRequest, hidden: Set[str], error: ErrorCode, message: str
) -> FindCoordinatorResponse:
    return _response(ctx, request, hidden, lambda key: Coordinator(key, NO_NODE, "", -1, error, message))

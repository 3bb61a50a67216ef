"""The common parts of ShareFetch and ShareAcknowledge: authorization, acknowledgements, and the current leader in errors.

Source: KAFKA KafkaApis.handleAcknowledgements, validateAcknowledgementBatches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.broker.api.access import allowed, denied
from ottla.broker.api.context import Context
from ottla.broker.api.services import ShareGroupServices
from ottla.broker.cluster.features import share_groups_enabled
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.share.acknowledgement import AcknowledgementBatch as Acknowledgement
from ottla.broker.share.acknowledgement import AcknowledgeType
from ottla.broker.share.persister import SharePartitionKey
from ottla.broker.share.sessions import TopicPartition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k78_share_fetch import ShareFetchRequest
from ottla.protocol.messages.k79_share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.node_endpoint import NodeEndpoint
from ottla.protocol.messages.share_partitions import AcknowledgementBatch, LeaderIdAndEpoch

RENEW_SINCE: Final = 2
"""The first version of ShareFetch and ShareAcknowledge in which acquisition locks can be renewed (KIP-1222); it also has acquire modes
(KIP-1206).
"""
_MEMBER_ID_CHARS: Final = 36
"""The length in characters that a member id must have: that of a UUID as text."""
_REDIRECTING: Final = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}

Request = ShareFetchRequest | ShareAcknowledgeRequest


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The result of the acknowledgements in one partition: an error code (NONE for success) with a message."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


Acknowledgements = dict[TopicPartition, Acknowledged]


def check_member(ctx: Context[ShareGroupServices], request: Request) -> tuple[str, str]:
    """Return the group id and the member id of a request. Raises Rejected if share groups are off, an id is missing or invalid, or the
    client may not READ the group."""
    if not share_groups_enabled(ctx.services.topics.features):
        raise Rejected(ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None:
        raise Rejected(ErrorCode.INVALID_REQUEST)
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        raise Rejected(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.member_id or len(request.member_id) > _MEMBER_ID_CHARS:
        raise Rejected(ErrorCode.INVALID_REQUEST)
    return request.group_id, request.member_id


def topic_name(ctx: Context[ShareGroupServices], topic_id: bytes) -> str | None:
    """Return the name of the topic with this id, or None if no topic has the id."""
    topic = ctx.services.topics.topic_by_id(topic_id)
    return None if topic is None else topic.name


def unreadable(ctx: Context[ShareGroupServices], names: Iterable[str | None]) -> Callable[[str, TopicPartition], ErrorCode | None]:
    """Return a function that gets a topic name and a partition. It returns TOPIC_AUTHORIZATION_FAILED if the client may not READ the topic,
    UNKNOWN_TOPIC_OR_PARTITION if the partition does not exist, and otherwise None. `names` must contain all topic names with which the
    function will be called.
    """
    hidden = denied(ctx, Operation.READ, Resource.TOPIC, {name for name in names if name is not None})

    def error_of(name: str, key: TopicPartition) -> ErrorCode | None:
        if name in hidden:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic = ctx.services.topics.topic(name)
        return None if topic is not None and key.partition in topic.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    return error_of


def acknowledge(ctx: Context[ShareGroupServices], request: Request) -> Acknowledgements | Awaitable[Acknowledgements]:
    """Apply the acknowledgements of a request. Return each partition's result when the acknowledgements are persisted."""
    batches: dict[TopicPartition, Sequence[AcknowledgementBatch]] = {
        TopicPartition(topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }
    names = {topic.topic_id: topic_name(ctx, topic.topic_id) for topic in request.topics}
    error_of = unreadable(ctx, names.values())
    results: Acknowledgements = {}
    for key, acknowledged in batches.items():
        name = names[key.topic_id]
        if name is None:
            results[key] = Acknowledged(ErrorCode.UNKNOWN_TOPIC_ID)
        elif not _are_valid(ctx, request, acknowledged):
            results[key] = Acknowledged(ErrorCode.INVALID_REQUEST)
        elif (error := error_of(name, key)) is not None:
            results[key] = Acknowledged(error)
    valid = {key: acknowledged for key, acknowledged in batches.items() if key not in results}
    if not any(valid.values()):
        return results  # as in Kafka, which then also omits the partitions without acknowledgements
    return _apply(ctx, request, valid, results)


def _apply(
    ctx: Context[ShareGroupServices],
    request: Request,
    batches: Mapping[TopicPartition, Sequence[AcknowledgementBatch]],
    results: Acknowledgements,
) -> Acknowledgements | Awaitable[Acknowledgements]:
    assert request.group_id is not None, "the request was checked"
    assert request.member_id is not None, "the request was checked"
    pending: dict[TopicPartition, asyncio.Future[None]] = {}
    for key, acknowledged in batches.items():
        results[key] = Acknowledged()
        given = [Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in acknowledged]
        if not given:
            continue
        try:
            durable = ctx.services.share.partitions.acknowledge(SharePartitionKey(request.group_id, *key), request.member_id, given)
        except Rejected as rejected:
            results[key] = _refused(rejected)
            continue
        if durable is not None:
            pending[key] = durable
    return _persisted(results, pending) if pending else results


def _are_valid(ctx: Context[ShareGroupServices], request: Request, batches: Sequence[AcknowledgementBatch]) -> bool:
    """Return whether the acknowledgement batches are in ascending order of offsets, and each has either one acknowledgement type or one for
    each offset. Every type must exist in the request's version."""
    types = len(AcknowledgeType) if ctx.version >= RENEW_SINCE else AcknowledgeType.RENEW
    end = -1
    for batch in batches:
        count, kinds = batch.last_offset - batch.first_offset + 1, batch.acknowledge_types
        if count < 1 or batch.first_offset < end or len(kinds) not in {1, count}:
            return False
        if any(not 0 <= kind < types for kind in kinds) or (AcknowledgeType.RENEW in kinds and not request.is_renew_ack):
            return False
        end = batch.last_offset
    return True


async def _persisted(results: Acknowledgements, pending: Mapping[TopicPartition, asyncio.Future[None]]) -> Acknowledgements:
    for key, durable in pending.items():
        try:
            await durable
        except Rejected as rejected:
            results[key] = _refused(rejected)
    return results


def _refused(rejected: Rejected) -> Acknowledged:
    return Acknowledged(rejected.code, rejected.message or None)


def leader_of(ctx: Context[ShareGroupServices], key: TopicPartition, error: int) -> LeaderIdAndEpoch | None:
    """Return the partition's current leader and epoch if `error` means that this broker is not the leader, or that the client's leader
    epoch is old; otherwise None.
    """
    return LeaderIdAndEpoch(*ctx.services.cluster.current_leader(*key)) if error in _REDIRECTING else None


def endpoints(ctx: Context[ShareGroupServices], leaders: Iterable[int]) -> list[NodeEndpoint]:
    """Return the addresses of those brokers among `leaders` (broker ids) that are alive, so that the client can retry at the new
    leaders."""
    nodes = (ctx.services.cluster.alive_broker(leader, ctx.peer.client_listener) for leader in dict.fromkeys(leaders) if leader >= 0)
    return [NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in nodes if node is not None]

"""OffsetForLeaderEpoch (key 23), versions 2-4: the end offset of a leader epoch, by which clients detect log truncation (KIP-320).

Promises: the response has the largest known epoch that is not above the requested one, with its end offset (the log end offset for the
current epoch); -1, -1 if no such epoch is known. Only the leader responds, to replicas and consumers alike.
"""

from __future__ import annotations

from collections.abc import Collection

from ottla.broker.api.access import NOBODY, allowed_of_cluster, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import PartitionServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

API = Api(OffsetForLeaderEpochRequest, splits=(Split("topics.partitions", "topics.partitions"),))


@API.on_broker()
def handle(ctx: Context[PartitionServices], request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Return the end offset of each leader epoch that the request names. A topic that the client may not describe is
    TOPIC_AUTHORIZATION_FAILED."""
    hidden: Collection[str] = NOBODY
    if not allowed_of_cluster(ctx, Operation.CLUSTER_ACTION, quietly=True):
        hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, [topic.topic for topic in request.topics])
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [_answer(ctx, topic.topic, requested, topic.topic in hidden) for requested in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer(ctx: Context[PartitionServices], topic: str, requested: OffsetForLeaderPartition, is_denied: bool) -> EpochEndOffset:
    if is_denied:
        return EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, requested.partition)
    try:
        partition = ctx.services.partitions.get(topic, requested.partition)
        partition.replica.check_epoch(requested.current_leader_epoch)
        partition.replica.check_leads()
    except Rejected as rejected:
        return EpochEndOffset(rejected.code, requested.partition)
    epoch, end_offset = partition.log.end_offset_for_epoch(requested.leader_epoch)
    return EpochEndOffset(0, requested.partition, epoch, end_offset)

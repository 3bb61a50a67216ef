"""OffsetForLeaderEpoch (key 23), versions 2-4: where a leader epoch ended, so that a client notices that what it read is no longer there
(KIP-320).

Promises: the largest epoch that we know and that is not above the one asked, with the offset where it ended (the log's end for the
present one); -1, -1 when no such epoch is known. Only the leader answers, replicas and consumers alike.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(ctx: Context, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Answer at once."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic.topic, [_answer(ctx, topic.topic, asked) for asked in topic.partitions])
            for topic in request.topics
        ]
    )


def _answer(ctx: Context, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = ctx.services.partitions.get(topic, asked.partition)
        partition.replica.check_epoch(asked.current_leader_epoch)
        partition.replica.check_leads()
    except Rejected as rejected:
        return EpochEndOffset(rejected.code, asked.partition)
    epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(0, asked.partition, epoch, end_offset)

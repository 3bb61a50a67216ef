"""ListOffsets (key 2), versions 1-10: the offset of a timestamp, or one of the special offsets.

Promises: -1 latest (the high watermark, or the last stable offset for READ_COMMITTED), -2 earliest, -3 the record with the greatest timestamp
(version 7), -4 earliest local (8; here the earliest, for nothing is tiered), -5 latest tiered (9; here none); else the first record that is
not older. What a consumer may not see yet is not found: offset -1, timestamp -1, no error. A partition named twice is refused both times.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.api.context import Context
from broker.core.rejected import Rejected
from broker.storage.log_values import NOT_FOUND, TimestampOffset
from protocol.error_codes import ErrorCode
from protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from broker.runtime.partition import Partition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

_SINCE_VERSION = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

CONSUMER = -1
READ_COMMITTED = 1


def handle(ctx: Context, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer at once."""
    named = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name, [_answer(ctx, request, topic.name, asked, named[topic.name, asked.partition_index]) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer(ctx: Context, request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition, times: int) -> ListOffsetsPartitionResponse:
    try:
        if times > 1:
            raise Rejected(ErrorCode.INVALID_REQUEST, "the partition is named twice")
        if asked.timestamp < 0 and ctx.version < _SINCE_VERSION.get(asked.timestamp, ctx.version + 1):
            raise Rejected(ErrorCode.UNSUPPORTED_VERSION)
        partition = ctx.services.partitions.get(topic, asked.partition_index)
        partition.check_epoch(asked.current_leader_epoch)
        found = _find(partition, asked.timestamp, _bound(partition, request))
    except Rejected as rejected:
        return ListOffsetsPartitionResponse(asked.partition_index, rejected.code)
    return ListOffsetsPartitionResponse(asked.partition_index, ErrorCode.NONE, found.timestamp, found.offset, found.leader_epoch)


def _bound(partition: Partition, request: ListOffsetsRequest) -> int:
    """One past the last offset that may be told."""
    log = partition.log
    if request.replica_id != CONSUMER:
        return log.log_end_offset
    return log.last_stable_offset if request.isolation_level == READ_COMMITTED else log.high_watermark


def _find(partition: Partition, timestamp: int, bound: int) -> TimestampOffset:
    log = partition.log
    if timestamp == LATEST:
        return TimestampOffset(-1, bound, log.leader_epoch)
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return TimestampOffset(-1, log.log_start_offset, log.epoch_at(log.log_start_offset))
    if timestamp == LATEST_TIERED:
        return NOT_FOUND
    found = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return found if found is not None and found.offset < bound else NOT_FOUND

"""Find the end offset of a leader epoch.

Versions 2-4; flexible from 4.

Changes by version:
* 3: `replica_id`; -2 is a debugging consumer, which may get offsets above the high watermark.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, int64, string, wire_struct


@wire_struct
class OffsetForLeaderPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


@wire_struct
class OffsetForLeaderTopic:
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@wire_struct
class OffsetForLeaderEpochRequest(Message, api_key=23, versions="2-4", flexible="4+"):
    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@wire_struct
class EpochEndOffset:
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@wire_struct
class OffsetForLeaderTopicResult:
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@wire_struct
class OffsetForLeaderEpochResponse(Message, api_key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int = int32()
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)

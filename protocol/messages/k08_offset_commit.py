"""Commit offsets of a consumer group.

Versions 2-10; flexible from 8.

Changes by version:
* 2-4: `retention_time_ms`; from 5 on the broker's offsets.retention.minutes applies. 3: `throttle_time_ms`. 6: `committed_leader_epoch`.
* 7: `group_instance_id`. 9: the generation may be a member epoch of the consumer protocol (KIP-848).
* 10: topic ids instead of names (KIP-848).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, int64, string, uuid, wire_struct


@wire_struct
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


@wire_struct
class OffsetCommitRequestTopic:
    name: str = string("2-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@wire_struct
class OffsetCommitRequest(Message, api_key=8, versions="2-10", flexible="8+"):
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@wire_struct
class OffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@wire_struct
class OffsetCommitResponseTopic:
    name: str = string("2-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@wire_struct
class OffsetCommitResponse(Message, api_key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: int = int32("3+")
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)

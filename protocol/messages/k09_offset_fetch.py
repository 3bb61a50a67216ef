"""Fetch the committed offsets of consumer groups.

Versions 1-10; flexible from 6. Null `topics` means all of them, from version 2 on.

Changes by version:
* 2: a top-level `error_code`. 3: `throttle_time_ms`. 5: `committed_leader_epoch`. 7: `require_stable` (KIP-447).
* 8: many groups in one request: `groups` replaces the fields of a single group. 9: `member_id` and `member_epoch` (KIP-848).
* 10: topic ids instead of names (KIP-848).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int16, int32, int64, string, uuid, wire_struct


@wire_struct
class OffsetFetchRequestTopic:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@wire_struct
class OffsetFetchRequestTopics:
    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partition_indexes: list[int] = array(int32)


@wire_struct
class OffsetFetchRequestGroup:
    group_id: str = string()
    member_id: str | None = string("9+", nullable="9+", default=None)
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="0+")


@wire_struct
class OffsetFetchRequest(Message, api_key=9, versions="1-10", flexible="6+"):
    group_id: str = string("1-7")
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "1-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


@wire_struct
class OffsetFetchResponsePartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5+", default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


@wire_struct
class OffsetFetchResponseTopic:
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@wire_struct
class OffsetFetchResponsePartitions:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


@wire_struct
class OffsetFetchResponseTopics:
    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


@wire_struct
class OffsetFetchResponseGroup:
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


@wire_struct
class OffsetFetchResponse(Message, api_key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: int = int32("3+")
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "1-7")
    error_code: int = int16("2-7")
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")

"""Delete committed offsets of a group for topics that it does not subscribe to.

Version 0, not flexible.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, string, wire_struct


@wire_struct
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@wire_struct
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@wire_struct
class OffsetDeleteRequest(Message, api_key=47, versions="0"):
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@wire_struct
class OffsetDeleteResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@wire_struct
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@wire_struct
class OffsetDeleteResponse(Message, api_key=47, versions="0"):
    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)

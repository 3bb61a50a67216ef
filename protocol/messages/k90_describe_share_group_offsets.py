"""Describe the start offsets of share groups' partitions (KIP-932).

Versions 0-1, all flexible. Null topics mean: all topics of the group.

Changes by version:
* 1: `lag` (KIP-1226).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, int64, string, uuid, wire_struct


@wire_struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = string()
    partitions: list[int] = array(int32)


@wire_struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(DescribeShareGroupOffsetsRequestTopic, nullable="0+")


@wire_struct
class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions="0-1", flexible="0+"):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(DescribeShareGroupOffsetsRequestGroup)


@wire_struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64("1+", default=-1)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@wire_struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(DescribeShareGroupOffsetsResponsePartition)


@wire_struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(DescribeShareGroupOffsetsResponseTopic)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@wire_struct
class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(DescribeShareGroupOffsetsResponseGroup)

"""Describe a broker's log directories, and the size of each partition in them.

Versions 1-5; flexible from 2. Null `topics` means all of them.

Changes by version:
* 3: a top-level `error_code`. 4: total and usable bytes of the volume (KIP-827).
* 5: `is_cordoned`: whether new replicas are kept out of the directory (KIP-1066).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int16, int32, int64, string, wire_struct


@wire_struct
class DescribableLogDirTopic:
    topic: str = string()
    partitions: list[int] = array(int32)


@wire_struct
class DescribeLogDirsRequest(Message, api_key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@wire_struct
class DescribeLogDirsPartition:
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@wire_struct
class DescribeLogDirsTopic:
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@wire_struct
class DescribeLogDirsResult:
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+")


@wire_struct
class DescribeLogDirsResponse(Message, api_key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("3+")
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)

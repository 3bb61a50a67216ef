"""Add partitions to topics.

Versions 0-3; flexible from 2.

Changes by version:
* 3: THROTTLING_QUOTA_EXCEEDED may be returned (KIP-599).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int16, int32, string, wire_struct


@wire_struct
class CreatePartitionsAssignment:
    broker_ids: list[int] = array(int32)


@wire_struct
class CreatePartitionsTopic:
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


@wire_struct
class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@wire_struct
class CreatePartitionsTopicResult:
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@wire_struct
class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)

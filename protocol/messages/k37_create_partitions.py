"""Add partitions to topics.

Versions 0-3; flexible from 2.

* 3: THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599).
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.schema import Message, array, boolean, int16, int32, string


@dataclass(slots=True)
class CreatePartitionsAssignment:
    broker_ids: list[int] = array(int32)


@dataclass(slots=True)
class CreatePartitionsTopic:
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


@dataclass(slots=True)
class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@dataclass(slots=True)
class CreatePartitionsTopicResult:
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@dataclass(slots=True)
class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)

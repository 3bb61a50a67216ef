"""Reassign partitions to other brokers, or cancel a reassignment (null `replicas`) (KIP-455).

Versions 0-1, all flexible.

Changes by version:
* 1: `allow_replication_factor_change` (KIP-860).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int16, int32, string, wire_struct


@wire_struct
class ReassignablePartition:
    partition_index: int = int32()
    replicas: list[int] | None = array(int32, nullable="0+", default=None)


@wire_struct
class ReassignableTopic:
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@wire_struct
class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0-1", flexible="0+"):
    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@wire_struct
class ReassignablePartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@wire_struct
class ReassignableTopicResponse:
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@wire_struct
class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)

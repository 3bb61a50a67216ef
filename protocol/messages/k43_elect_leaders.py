"""Elect leaders of partitions: the preferred replica, or by an unclean election a live replica that need not be in sync.

Versions 0-2; flexible from 2.

Changes by version:
* 1: `election_type` (0 preferred, 1 unclean), and a top-level `error_code` (KIP-460).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int16, int32, string, wire_struct


@wire_struct
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array(int32)


@wire_struct
class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60000)


@wire_struct
class PartitionResult:
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@wire_struct
class ReplicaElectionResult:
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@wire_struct
class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)

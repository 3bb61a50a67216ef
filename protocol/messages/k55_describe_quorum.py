"""The metadata quorum: its leader, voters and observers, and how far each has read (KIP-595).

Versions 0-2, all flexible.

* 1: times of each replica (KIP-836). 2: error messages, directory ids, and the voters' listeners (KIP-853).
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.schema import Message, array, int16, int32, int64, string, uint16, uuid


@dataclass(slots=True)
class PartitionData:
    partition_index: int = int32()


@dataclass(slots=True)
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
    topics: list[TopicData] = array(TopicData)


@dataclass(slots=True)
class ReplicaState:
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


@dataclass(slots=True)
class PartitionResult:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


@dataclass(slots=True)
class TopicResult:
    topic_name: str = string()
    partitions: list[PartitionResult] = array(PartitionResult)


@dataclass(slots=True)
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@dataclass(slots=True)
class Node:
    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


@dataclass(slots=True)
class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    topics: list[TopicResult] = array(TopicResult)
    nodes: list[Node] = array(Node, "2+")

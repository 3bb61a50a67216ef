"""Describe the metadata quorum: its leader, and the log end offset of each voter and observer (KIP-595).

Versions 0-2, all flexible.

Changes by version:
* 1: the time of each replica's last fetch and when it last caught up (KIP-836). 2: error messages, directory ids, and the voters'
  listeners (KIP-853).
"""

from __future__ import annotations

from ottla.protocol.messages.quorum import Listener
from ottla.protocol.schema import Message, array, int16, int32, int64, string, uuid, wire_struct


@wire_struct
class PartitionData:
    partition_index: int = int32()


@wire_struct
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
    topics: list[TopicData] = array(TopicData)


@wire_struct
class ReplicaState:
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


@wire_struct
class PartitionResult:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


@wire_struct
class TopicResult:
    topic_name: str = string()
    partitions: list[PartitionResult] = array(PartitionResult)


@wire_struct
class Node:
    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


@wire_struct
class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    topics: list[TopicResult] = array(TopicResult)
    nodes: list[Node] = array(Node, "2+")

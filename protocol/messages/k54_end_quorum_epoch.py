"""A leader of the metadata quorum resigns (KIP-595).

Versions 0-1; flexible from 1.

* 1: `preferred_candidates` instead of `preferred_successors`, and where the leader is reached (KIP-853).
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.schema import Message, array, int16, int32, string, uint16, uuid


@dataclass(slots=True)
class ReplicaInfo:
    candidate_id: int = int32()
    candidate_directory_id: bytes = uuid()


@dataclass(slots=True)
class PartitionData:
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, "0")
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+")


@dataclass(slots=True)
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class LeaderEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()


@dataclass(slots=True)
class EndQuorumEpochRequest(Message, api_key=54, versions="0-1", flexible="1+"):
    cluster_id: str | None = string(nullable="0+", default=None)
    topics: list[TopicData] = array(TopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+")


@dataclass(slots=True)
class PartitionResult:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


@dataclass(slots=True)
class TopicResult:
    topic_name: str = string()
    partitions: list[PartitionResult] = array(PartitionResult)


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@dataclass(slots=True)
class EndQuorumEpochResponse(Message, api_key=54, versions="0-1", flexible="1+"):
    error_code: int = int16()
    topics: list[TopicResult] = array(TopicResult)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)

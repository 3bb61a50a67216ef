"""A leader of the metadata quorum resigns and names its preferred successors (KIP-595).

Versions 0-1; flexible from 1.

Changes by version:
* 1: `preferred_candidates` instead of `preferred_successors`, and the leader's endpoints (KIP-853).
"""

from __future__ import annotations

from ottla.protocol.messages.quorum import EpochTopic, Listener, NodeEndpoint
from ottla.protocol.schema import Message, array, int16, int32, string, uuid, wire_struct


@wire_struct
class ReplicaInfo:
    candidate_id: int = int32()
    candidate_directory_id: bytes = uuid()


@wire_struct
class PartitionData:
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, "0")
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+")


@wire_struct
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class EndQuorumEpochRequest(Message, api_key=54, versions="0-1", flexible="1+"):
    cluster_id: str | None = string(nullable="0+", default=None)
    topics: list[TopicData] = array(TopicData)
    leader_endpoints: list[Listener] = array(Listener, "1+")


@wire_struct
class EndQuorumEpochResponse(Message, api_key=54, versions="0-1", flexible="1+"):
    error_code: int = int16()
    topics: list[EpochTopic] = array(EpochTopic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)

"""A new leader of the metadata quorum announces its epoch to the voters (KIP-595).

Versions 0-1; flexible from 1.

Changes by version:
* 1: `voter_id`, directory ids, and the leader's endpoints (KIP-853).
"""

from __future__ import annotations

from ottla.protocol.messages.quorum import EpochTopic, Listener, NodeEndpoint
from ottla.protocol.schema import Message, array, int16, int32, string, uuid, wire_struct


@wire_struct
class PartitionData:
    partition_index: int = int32()
    voter_directory_id: bytes = uuid("1+")
    leader_id: int = int32()
    leader_epoch: int = int32()


@wire_struct
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class BeginQuorumEpochRequest(Message, api_key=53, versions="0-1", flexible="1+"):
    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1)
    topics: list[TopicData] = array(TopicData)
    leader_endpoints: list[Listener] = array(Listener, "1+")


@wire_struct
class BeginQuorumEpochResponse(Message, api_key=53, versions="0-1", flexible="1+"):
    error_code: int = int16()
    topics: list[EpochTopic] = array(EpochTopic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)

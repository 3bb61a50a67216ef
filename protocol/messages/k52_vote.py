"""Ask a voter of the metadata quorum for its vote (KIP-595).

Versions 0-2, all flexible.

Changes by version:
* 1: `voter_id`, directory ids, and the leader's endpoint (KIP-853). 2: `pre_vote` (KIP-996).
"""

from __future__ import annotations

from ottla.protocol.messages.quorum import NodeEndpoint
from ottla.protocol.schema import Message, array, boolean, int16, int32, int64, string, uuid, wire_struct


@wire_struct
class PartitionData:
    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("1+")
    voter_directory_id: bytes = uuid("1+")
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean("2+")


@wire_struct
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class VoteRequest(Message, api_key=52, versions="0-2", flexible="0+"):
    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1)
    topics: list[TopicData] = array(TopicData)


@wire_struct
class PartitionResult:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


@wire_struct
class TopicResult:
    topic_name: str = string()
    partitions: list[PartitionResult] = array(PartitionResult)


@wire_struct
class VoteResponse(Message, api_key=52, versions="0-2", flexible="0+"):
    error_code: int = int16()
    topics: list[TopicResult] = array(TopicResult)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)

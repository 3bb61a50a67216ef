"""Read a part of a snapshot of the metadata log (KIP-630).

Versions 0-1, all flexible.

Changes by version:
* 1: `replica_directory_id`, and the leader's endpoint (KIP-853).
"""

from __future__ import annotations

from ottla.protocol.messages.quorum import NodeEndpoint
from ottla.protocol.schema import Buffer, Message, array, int16, int32, int64, records_, string, struct, uuid, wire_struct


@wire_struct
class SnapshotId:
    end_offset: int = int64()
    epoch: int = int32()


@wire_struct
class PartitionSnapshot:
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid("1+", tag=0)


@wire_struct
class TopicSnapshot:
    name: str = string()
    partitions: list[PartitionSnapshot] = array(PartitionSnapshot)


@wire_struct
class FetchSnapshotRequest(Message, api_key=59, versions="0-1", flexible="0+"):
    cluster_id: str | None = string(nullable="0+", default=None, tag=0)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=0x7FFFFFFF)
    topics: list[TopicSnapshot] = array(TopicSnapshot)


@wire_struct
class LeaderIdAndEpoch:
    leader_id: int = int32()
    leader_epoch: int = int32()


@wire_struct
class PartitionSnapshotPart:
    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, tag=0)
    size: int = int64()
    position: int = int64()
    unaligned_records: Buffer = records_()


@wire_struct
class TopicSnapshotPart:
    name: str = string()
    partitions: list[PartitionSnapshotPart] = array(PartitionSnapshotPart)


@wire_struct
class FetchSnapshotResponse(Message, api_key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicSnapshotPart] = array(TopicSnapshotPart)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)

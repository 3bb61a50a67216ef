"""Read record batches of partitions, as a consumer or as a follower.

Versions 4-18; flexible from 12.

Changes by version:
* 4: isolation levels. 5: `log_start_offset`. 7: incremental fetch sessions (KIP-227).
* 9: `current_leader_epoch` fences old leaders (KIP-320). 10: responses may have zstd batches.
* 11: `rack_id` and `preferred_read_replica` (KIP-392).
* 12: `last_fetched_epoch`, and the tagged `diverging_epoch` and `current_leader` (KIP-595).
* 13: topic ids instead of names (KIP-516). 15: tagged `replica_state` instead of `replica_id` (KIP-903).
* 16: `node_endpoints` (KIP-951). 17: `replica_directory_id` (KIP-853). 18: `high_watermark` of a follower (KIP-1166).
"""

from __future__ import annotations

from ottla.protocol.messages.node_endpoint import NodeEndpoint
from ottla.protocol.schema import Buffer, Message, array, int8, int16, int32, int64, records_, string, struct, uuid, wire_struct


@wire_struct
class ReplicaState:
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@wire_struct
class FetchPartition:
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0)
    high_watermark: int = int64("18+", default=0x7FFFFFFFFFFFFFFF, tag=1)


@wire_struct
class FetchTopic:
    topic: str = string("4-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition)


@wire_struct
class ForgottenTopic:
    topic: str = string("7-12")
    topic_id: bytes = uuid("13+")
    partitions: list[int] = array(int32)


@wire_struct
class FetchRequest(Message, api_key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0)
    replica_id: int = int32("4-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    isolation_level: int = int8()
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


@wire_struct
class EpochEndOffset:
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@wire_struct
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@wire_struct
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@wire_struct
class AbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@wire_struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="0+")
    preferred_read_replica: int = int32("11+", default=-1)
    records: Buffer | None = records_(nullable="0+", default=None)


@wire_struct
class FetchableTopicResponse:
    topic: str = string("4-12")
    topic_id: bytes = uuid("13+")
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class FetchResponse(Message, api_key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)

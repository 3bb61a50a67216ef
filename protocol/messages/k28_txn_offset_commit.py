"""Commit offsets of a consumer group as part of a transaction.

Versions 0-6; flexible from 3.

Changes by version:
* 2: `committed_leader_epoch`. 3: generation, member and instance id fence zombies (KIP-447). 4: TRANSACTION_ABORTABLE.
* 5: the group coordinator adds the offsets partition to the transaction (KIP-890). 6: topics by id (KIP-1319).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, int64, string, uuid, wire_struct


@wire_struct
class TxnOffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


@wire_struct
class TxnOffsetCommitRequestTopic:
    name: str = string("0-5")
    topic_id: bytes = uuid("6+")
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@wire_struct
class TxnOffsetCommitRequest(Message, api_key=28, versions="0-6", flexible="3+"):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@wire_struct
class TxnOffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@wire_struct
class TxnOffsetCommitResponseTopic:
    name: str = string("0-5")
    topic_id: bytes = uuid("6+")
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@wire_struct
class TxnOffsetCommitResponse(Message, api_key=28, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)

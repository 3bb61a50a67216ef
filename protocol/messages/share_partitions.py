"""The structs that ShareFetch and ShareAcknowledge have in common.

Kafka's schemas call them FetchTopic and FetchPartition in ShareFetch, AcknowledgeTopic and AcknowledgePartition in ShareAcknowledge.
"""

from __future__ import annotations

from ottla.protocol.schema import array, int8, int32, int64, uuid, wire_struct


@wire_struct
class AcknowledgementBatch:
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


@wire_struct
class SharePartition:
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@wire_struct
class ShareTopic:
    topic_id: bytes = uuid()
    partitions: list[SharePartition] = array(SharePartition)


@wire_struct
class LeaderIdAndEpoch:
    leader_id: int = int32()
    leader_epoch: int = int32()

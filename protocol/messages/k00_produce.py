"""Append record batches to partitions.

Versions 3-13; flexible from 9. Brokers still advertise 0 as the minimum version, because old releases of librdkafka require it
(KAFKA-18659).

Changes by version:
* 3: the first with record batches of magic 2; names the transactional id.
* 5: `log_start_offset` in the response. 7: zstd may be used (KIP-110).
* 8: `record_errors` and `error_message` (KIP-467).
* 10: `current_leader` and `node_endpoints` as tagged fields (KIP-951).
* 11: TRANSACTION_ABORTABLE may be returned. 12: the broker adds the partition to the transaction (KIP-890).
* 13: topic ids instead of names (KIP-516).
"""

from __future__ import annotations

from ottla.protocol.messages.node_endpoint import NodeEndpoint
from ottla.protocol.schema import Buffer, Message, array, int16, int32, int64, records_, string, struct, uuid, wire_struct


@wire_struct
class PartitionProduceData:
    index: int = int32()
    records: Buffer | None = records_(nullable="0+", default=None)


@wire_struct
class TopicProduceData:
    name: str = string("3-12")
    topic_id: bytes = uuid("13+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@wire_struct
class ProduceRequest(Message, api_key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = string(nullable="0+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@wire_struct
class BatchIndexAndErrorMessage:
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+", default=None)


@wire_struct
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@wire_struct
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)


@wire_struct
class TopicProduceResponse:
    name: str = string("3-12")
    topic_id: bytes = uuid("13+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@wire_struct
class ProduceResponse(Message, api_key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)

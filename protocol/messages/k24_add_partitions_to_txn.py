"""Add partitions to a transaction, or verify that they are in it.

Versions 0-5; flexible from 3. Clients use versions up to 3, whose fields are named `v3_and_below_…`; brokers use 4 and 5 among themselves.

Changes by version:
* 2: PRODUCER_FENCED may be returned. 4: many transactions in one request, `verify_only` (KIP-890). 5: TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int16, int32, int64, string, wire_struct


@wire_struct
class AddPartitionsToTxnTopic:
    name: str = string()
    partitions: list[int] = array(int32)


@wire_struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean()
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


@wire_struct
class AddPartitionsToTxnRequest(Message, api_key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


@wire_struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = int32()
    partition_error_code: int = int16()


@wire_struct
class AddPartitionsToTxnTopicResult:
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


@wire_struct
class AddPartitionsToTxnResult:
    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)


@wire_struct
class AddPartitionsToTxnResponse(Message, api_key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")

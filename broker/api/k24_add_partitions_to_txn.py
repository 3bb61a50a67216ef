"""AddPartitionsToTxn (key 24), versions 0-5: adds partitions to a transaction, or verifies that they belong to it.

Promises:
* All partitions of a transaction are added, or none. A partition that does not exist (UNKNOWN_TOPIC_OR_PARTITION), or is internal
  (TOPIC_AUTHORIZATION_FAILED), gets its error and all others OPERATION_NOT_ATTEMPTED.
* Clients use versions 0 to 3. Brokers use versions 4 and 5, with several transactions in one request, to verify partitions or to add them
  (KIP-890). A broker adds partitions only for producers of transaction version 2.
* A fenced producer gets PRODUCER_FENCED from version 2 on, before that INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping

from ottla.broker.api.access import NOBODY, allowed, allowed_of_cluster, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_all_ready, respond_when_ready
from ottla.broker.api.repeated_partitions import last_entries
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.txn_errors import fenced_for
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

API = Api(AddPartitionsToTxnRequest, array_limits={"transactions.topics.partitions": 10_000, "v3_and_below_topics.partitions": 10_000})

Errors = Mapping[TopicPartition, ErrorCode]


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    """Add partitions to transactions, or verify that partitions belong to transactions. Return the response; if partitions are added,
    return an awaitable of it until the additions are durable.
    """
    if ctx.version >= 4 and not allowed_of_cluster(ctx, Operation.CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    transactions = request.transactions if ctx.version >= 4 else [_of_client(request)]
    return respond_when_all_ready([_result(ctx, one) for one in transactions], lambda results: _response(ctx, results))


def _result(
    ctx: Context[CoordinationServices], transaction: AddPartitionsToTxnTransaction
) -> AddPartitionsToTxnResult | Awaitable[AddPartitionsToTxnResult]:
    def result(answer: Errors | ErrorCode) -> AddPartitionsToTxnResult:
        topics = _merged(transaction.topics) if transaction.verify_only else transaction.topics
        return AddPartitionsToTxnResult(transaction.transactional_id, _by_topic(ctx, topics, answer))

    partitions = frozenset((topic.name, index) for topic in transaction.topics for index in topic.partitions)
    hidden: Collection[str] = NOBODY
    if ctx.version < 4:
        if not allowed(ctx, Operation.WRITE, Resource.TRANSACTIONAL_ID, transaction.transactional_id):
            return result(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        hidden = denied(ctx, Operation.WRITE, Resource.TOPIC, [topic for topic, _ in sorted(partitions) if not is_internal(topic)])
    wrong = {partition: error for partition in partitions if (error := _problem(ctx, partition, hidden)) is not ErrorCode.NONE}
    if wrong:
        return result(dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | wrong)
    txns = ctx.services.txns
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return respond_when_ready(lambda: txns.verify_partitions(*producer, partitions), result, lambda rejected: result(rejected.code))
    version = 2 if ctx.version >= 4 else 0
    return respond_when_ready(lambda: txns.add_partitions(*producer, partitions, version), result, lambda rejected: result(rejected.code))


def _problem(ctx: Context[CoordinationServices], partition: TopicPartition, hidden: Collection[str]) -> ErrorCode:
    if partition[0] in hidden or (ctx.version < 4 and is_internal(partition[0])):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if ctx.services.topics.has_partition(partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _response(ctx: Context[CoordinationServices], results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    if ctx.version >= 4:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def _by_topic(
    ctx: Context[CoordinationServices], topics: list[AddPartitionsToTxnTopic], answer: Errors | ErrorCode
) -> list[AddPartitionsToTxnTopicResult]:
    def error(partition: TopicPartition) -> ErrorCode:
        return fenced_for(ctx.version, answer if isinstance(answer, ErrorCode) else answer[partition], since=2)

    return [
        AddPartitionsToTxnTopicResult(
            topic.name, [AddPartitionsToTxnPartitionResult(index, error((topic.name, index))) for index in topic.partitions]
        )
        for topic in topics
    ]


def _merged(topics: list[AddPartitionsToTxnTopic]) -> list[AddPartitionsToTxnTopic]:
    """Merge entries of one topic, so that the result has each partition once, and omit topics without partitions. Kafka does the same,
    because it keeps verified partitions in a map."""
    merged = last_entries((topic.name, index, None) for topic in topics for index in topic.partitions)
    return [AddPartitionsToTxnTopic(name, list(indexes)) for name, indexes in merged.items()]


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )

"""DescribeTransactions (key 65), version 0: state, producer and partitions of transactional ids (KIP-664).

Promises: an unknown id is TRANSACTIONAL_ID_NOT_FOUND and an empty one INVALID_REQUEST, each by itself. A start time of -1 means that no
transaction was begun since the producer was initialized. An id that is named twice is described once.
"""

from __future__ import annotations

from itertools import groupby

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

API = Api(DescribeTransactionsRequest, splits=(Split("transactional_ids", "transaction_states"),))


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """Return, for each transactional id that the request names, its producer and the state and partitions of its transaction, or
    an error."""
    return DescribeTransactionsResponse(transaction_states=[_describe(ctx, each) for each in dict.fromkeys(request.transactional_ids)])


def _describe(ctx: Context[CoordinationServices], transactional_id: str) -> TransactionState:
    try:
        if not allowed(ctx, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id):
            raise Rejected(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not transactional_id:
            raise Rejected(ErrorCode.INVALID_REQUEST)
        txn = ctx.services.txns.get(transactional_id)
        if txn is None:
            raise Rejected(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    except Rejected as rejected:
        return TransactionState(error_code=rejected.code, transactional_id=transactional_id)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=txn.state.wire_name,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_start_time_ms=txn.start_ms,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        topics=[
            TopicData(topic, [index for _, index in partitions])
            for topic, partitions in groupby(sorted(txn.partitions), lambda partition: partition[0])
            if allowed(ctx, Operation.DESCRIBE, Resource.TOPIC, topic)
        ],
    )

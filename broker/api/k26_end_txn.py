"""EndTxn (key 26), versions 0-5: commits or aborts a transaction.

Promises:
* The response is sent when the decision is durable. The decision then reaches every partition, even after a crash.
* From version 5 on (transaction version 2, KIP-890) the response has the producer id and epoch of the next transaction, so that a late
  EndTxn cannot end that transaction; a retry gets the same response. Before version 5 a late EndTxn ends the next transaction, as in
  Kafka.
* A fenced producer gets PRODUCER_FENCED from version 2 on, before that INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.txn_errors import fenced_for
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.runtime.coordination.txn_service import TxnResult
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k26_end_txn import EndTxnRequest, EndTxnResponse

API = Api(EndTxnRequest)


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: EndTxnRequest) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """Commit or abort the transaction. Return the response, or an awaitable of it until the decision is durable."""
    if not allowed(ctx, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def respond(result: TxnResult) -> EndTxnResponse:
        error = fenced_for(ctx.version, result.error, since=2)
        return EndTxnResponse(error_code=error, producer_id=result.producer_id, producer_epoch=result.producer_epoch)

    return respond_when_ready(
        lambda: ctx.services.txns.end_txn(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
            client_version=2 if ctx.version >= 5 else 0,
        ),
        respond,
        lambda rejected: respond(TxnResult(rejected.code)),
    )

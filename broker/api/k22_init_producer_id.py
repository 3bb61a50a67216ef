"""InitProducerId (key 22), versions 0-5: assigns a producer id and epoch.

Promises:
* Without a transactional id every request gets a new producer id with epoch 0, whatever id it carries (as in Kafka's
  TransactionCoordinator).
* With a transactional id the producer gets the next epoch, and earlier producers are fenced. An open transaction is aborted first;
  meanwhile the response is CONCURRENT_TRANSACTIONS.
* From version 3 on the producer may send its current id and epoch (KIP-360).
* A fenced producer gets PRODUCER_FENCED from version 4 on, before that INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed, allowed_of_cluster
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.txn_errors import fenced_for
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.txn_service import TxnResult
from ottla.broker.runtime.metadata.producer_ids import NoProducerId
from ottla.broker.txns.decide import Expected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse

API = Api(InitProducerIdRequest)


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Assign a producer id and epoch. Return the response, or an awaitable of it if the transactional id's record must become durable
    first, or this broker has to wait for a block of producer ids.
    """
    if (denial := _denial(ctx, request)) is not None:
        return _refused(denial)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _idempotent(ctx)
    expected = None if request.producer_id == -1 else Expected(request.producer_id, request.producer_epoch)
    transactional_id = request.transactional_id

    def respond(result: TxnResult) -> InitProducerIdResponse:
        error = fenced_for(ctx.version, result.error, since=4)
        return InitProducerIdResponse(error_code=error, producer_id=result.producer_id, producer_epoch=result.producer_epoch)

    return respond_when_ready(
        lambda: ctx.services.txns.init_producer_id(transactional_id, request.transaction_timeout_ms, expected),
        respond,
        lambda rejected: respond(TxnResult(rejected.code)),
    )


def _denial(ctx: Context[CoordinationServices], request: InitProducerIdRequest) -> ErrorCode | None:
    """Return the authorization error, or None if the client may initialize a producer. A client without a transactional id needs
    IDEMPOTENT_WRITE on the cluster or WRITE on any topic (KIP-679).
    """
    authorizer = ctx.services.authorizer
    if authorizer is None:
        return None
    if (transactional_id := request.transactional_id) is not None:
        is_allowed = allowed(ctx, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
        return None if is_allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if allowed_of_cluster(ctx, Operation.IDEMPOTENT_WRITE, quietly=True):
        return None
    return None if authorizer.allowed_somewhere(ctx, Operation.WRITE, Resource.TOPIC) else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _idempotent(ctx: Context[CoordinationServices]) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    try:
        return InitProducerIdResponse(producer_id=ctx.services.producer_ids.generate(), producer_epoch=0)
    except NoProducerId:
        return _wait_for_producer_ids(ctx)


async def _wait_for_producer_ids(ctx: Context[CoordinationServices]) -> InitProducerIdResponse:
    """Wait until the controller has allocated a block of producer ids to this broker, then return a response with a producer id. The first
    requests after the broker's start wait here.
    """
    try:
        await ctx.services.producer_ids.wait()
    except Rejected as rejected:
        return _refused(rejected.code)
    result = _idempotent(ctx)
    return await result if isinstance(result, Awaitable) else result


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)

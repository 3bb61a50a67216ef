"""InitProducerId (key 22), versions 0-5: gives an idempotent producer its id.

Promises: without a transactional id every call gets an id that this data directory never gave before, with epoch 0, whatever id the
request carries (Kafka's TransactionCoordinator does the same).

Deviation: a transactional id is refused until there are transactions, with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: of all codes that
clients know here it is the one on which every client gives up at once and says so; COORDINATOR_NOT_AVAILABLE they would retry for ever.
"""

from __future__ import annotations

from broker.api.context import Context
from broker.core.rejected import Rejected
from protocol.error_codes import ErrorCode
from protocol.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(ctx: Context, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Answer at once; one call in a thousand waits for a new block of ids to be on disk."""
    try:
        _check(request)
        return InitProducerIdResponse(producer_id=ctx.services.producer_ids.next(), producer_epoch=0)
    except Rejected as rejected:
        return InitProducerIdResponse(error_code=rejected.code, producer_id=-1, producer_epoch=-1)


def _check(request: InitProducerIdRequest) -> None:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise Rejected(ErrorCode.INVALID_REQUEST, "producer id and epoch come together or not at all")
    if request.transactional_id == "":
        raise Rejected(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if request.transactional_id is not None:
        raise Rejected(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "this broker has no transactions yet")

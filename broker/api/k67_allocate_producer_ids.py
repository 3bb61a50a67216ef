"""AllocateProducerIds (key 67), version 0: allocates a block of producer ids to a broker (KIP-730)."""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.producer_ids import allocate_block_to
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

API = Api(AllocateProducerIdsRequest, forwarded=Forwarded.IN_PART, throttled=False)


@API.on_controller(requires=Operation.CLUSTER_ACTION)
async def handle(ctx: Context[ControllerServices], request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    """Allocate a block of producer ids to a broker. Return the block when its allocation is durable, so that no other broker gets it."""
    try:
        block = await ctx.services.active.run(partial(allocate_block_to, broker_id=request.broker_id, broker_epoch=request.broker_epoch))
    except Rejected as error:
        return AllocateProducerIdsResponse(error_code=error.code)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))

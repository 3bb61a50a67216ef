"""The controller's handlers for brokers: BrokerRegistration (key 62), BrokerHeartbeat (63), UnregisterBroker (64), AllocateProducerIds (67)
and ControllerRegistration (70).

Promise: a heartbeat counts from its arrival, however many decisions are queued before it, so that a busy controller fences no broker.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.controller_context import ControllerContext
from ottla.broker.controller.broker_sessions import Contact
from ottla.broker.controller.heartbeats import heartbeat
from ottla.broker.controller.producer_ids import allocate_block_to
from ottla.broker.controller.registrations import register_broker, register_controller, unregister_broker
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.messages.k70_controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse

_TELLS_LAST_EPOCH = 3


async def register(ctx: ControllerContext, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    """Register a broker and return its epoch."""
    services = ctx.services
    decide = partial(
        register_broker,
        request=request,
        next_offset=services.voter.end_offset,
        now_ms=services.clock.mono_ms(),
        tells_last_epoch=ctx.version >= _TELLS_LAST_EPOCH,
    )
    try:
        return BrokerRegistrationResponse(broker_epoch=await services.active.run(decide))
    except Rejected as error:
        return BrokerRegistrationResponse(error_code=error.code)


async def beat(ctx: ControllerContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    """Record a heartbeat and return the broker's state."""
    services = ctx.services
    services.active.state.sessions.touch(Contact(request.broker_id, request.broker_epoch), services.clock.mono_ms())
    try:
        outcome = await services.active.run(partial(heartbeat, request=request))
    except Rejected as error:
        return BrokerHeartbeatResponse(error_code=error.code)
    return BrokerHeartbeatResponse(
        is_caught_up=outcome.is_caught_up, is_fenced=outcome.state.is_fenced, should_shut_down=outcome.should_shut_down
    )


async def unregister(ctx: ControllerContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Remove a broker's registration."""
    try:
        await ctx.services.active.run(partial(unregister_broker, broker_id=request.broker_id))
    except Rejected as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse()


async def allocate_ids(ctx: ControllerContext, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    """Allocate a block of producer ids to a broker."""
    try:
        block = await ctx.services.active.run(partial(allocate_block_to, broker_id=request.broker_id, broker_epoch=request.broker_epoch))
    except Rejected as error:
        return AllocateProducerIdsResponse(error_code=error.code)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))


async def register_other(ctx: ControllerContext, request: ControllerRegistrationRequest) -> ControllerRegistrationResponse:
    """Store another controller's registration, as Kafka does."""
    try:
        await ctx.services.active.run(partial(register_controller, request=request))
    except Rejected as error:
        return ControllerRegistrationResponse(error_code=error.code, error_message=error.message)
    return ControllerRegistrationResponse()

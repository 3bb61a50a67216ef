"""BrokerRegistration (key 62), versions 0-4: registers a broker with the controller (KIP-631)."""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.registrations import register_broker
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

API = Api(BrokerRegistrationRequest, throttled=False, array_limits={"listeners": 1_000, "features": 1_000, "log_dirs": 1_000})
_PREVIOUS_EPOCH_SINCE = 3


@API.on_controller(requires=Operation.CLUSTER_ACTION)
async def handle(ctx: Context[ControllerServices], request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    """Register a broker with this controller. Return the new broker epoch when the registration is durable, or an error if the registration
    is rejected."""
    services = ctx.services
    decide = partial(
        register_broker,
        request=request,
        next_offset=services.active.voter.end_offset,
        now_ms=services.clock.mono_ms(),
        has_previous_epoch=ctx.version >= _PREVIOUS_EPOCH_SINCE,
    )
    try:
        return BrokerRegistrationResponse(broker_epoch=await services.active.run(decide))
    except Rejected as error:
        return BrokerRegistrationResponse(error_code=error.code)

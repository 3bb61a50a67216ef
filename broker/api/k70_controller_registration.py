"""ControllerRegistration (key 70), version 0: stores another controller's registration, as Kafka does (KIP-919)."""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.registrations import register_controller
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k70_controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse

API = Api(ControllerRegistrationRequest, throttled=False, array_limits={"listeners": 1_000, "features": 1_000})


@API.on_controller(requires=Operation.CLUSTER_ACTION)
async def handle(ctx: Context[ControllerServices], request: ControllerRegistrationRequest) -> ControllerRegistrationResponse:
    """Store the registration of a controller in the metadata log, and respond when it is durable."""
    try:
        await ctx.services.active.run(partial(register_controller, request=request))
    except Rejected as error:
        return ControllerRegistrationResponse(error_code=error.code, error_message=error.message)
    return ControllerRegistrationResponse()

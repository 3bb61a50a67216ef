"""UnregisterController (key 94), version 0: removes a controller's registration. It came with Kafka 4.4.

A standalone node is its own controller, which is active and cannot unregister itself.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.registrations import unregister_controller
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k94_unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse

API = Api(UnregisterControllerRequest, forwarded=Forwarded.ALWAYS)


@API.on_controller(requires=Operation.ALTER)
async def handle(ctx: Context[ControllerServices], request: UnregisterControllerRequest) -> UnregisterControllerResponse:
    """Remove a controller's registration from the metadata, and respond when the removal is durable, or with an error if it is rejected."""
    try:
        await ctx.services.active.run(partial(unregister_controller, controller_id=request.controller_id))
    except Rejected as error:
        return UnregisterControllerResponse(error_code=error.code, error_message=error.message)
    return UnregisterControllerResponse()

"""UnregisterBroker (key 64), version 0: removes a broker's registration (KIP-631).

Deviation: Kafka unregisters even the only broker, which then leads nothing until its restart; here a standalone node rejects that.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.registrations import unregister_broker
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

API = Api(UnregisterBrokerRequest, forwarded=Forwarded.ALWAYS)


@API.on_controller(requires=Operation.ALTER)
async def handle(ctx: Context[ControllerServices], request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Remove a broker's registration, and the broker from all ISRs and leadership; respond when this is durable."""
    voter = ctx.services.active.voter
    if voter.is_standalone and request.broker_id == voter.me.node_id:
        return UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message="The only broker cannot be unregistered.")
    try:
        await ctx.services.active.run(partial(unregister_broker, broker_id=request.broker_id))
    except Rejected as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse()

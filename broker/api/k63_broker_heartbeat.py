"""BrokerHeartbeat (key 63), versions 0-2: keeps a broker's registration alive, and returns the broker's state (KIP-631).

Promise: a heartbeat extends the broker's session when it arrives, even if other decisions of the controller are queued before it. So no
broker is fenced because the controller is busy.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch
from ottla.broker.controller.heartbeats import heartbeat
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

API = Api(BrokerHeartbeatRequest, throttled=False, array_limits={"offline_log_dirs": 1_000, "cordoned_log_dirs": 1_000})

SESSIONS_MAX = 500
"""While the controller has this many heartbeat sessions, a broker that is not registered gets none, as in Kafka. Otherwise unknown brokers
could create any number of sessions."""


@API.on_controller(requires=Operation.CLUSTER_ACTION)
async def handle(ctx: Context[ControllerServices], request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    """Extend the broker's session, and decide whether its state changes. Return the state when the change is durable."""
    services = ctx.services
    state = services.active.state
    registration = state.image.brokers.get(request.broker_id)
    is_registered = registration is not None and registration.epoch == request.broker_epoch
    if is_registered or len(state.sessions) < SESSIONS_MAX:
        state.sessions.touch(BrokerIdAndEpoch(request.broker_id, request.broker_epoch), services.clock.mono_ms())
    try:
        outcome = await services.active.run(partial(heartbeat, request=request))
    except Rejected as error:
        return BrokerHeartbeatResponse(error_code=error.code)
    return BrokerHeartbeatResponse(
        is_caught_up=outcome.is_caught_up, is_fenced=outcome.state.is_fenced, should_shut_down=outcome.should_shut_down
    )

"""UnregisterController (key 94), version 0: removes a controller's registration. Only a broker that is like Kafka 4.4 serves it.

That broker is a standalone node, whose only controller is active and cannot unregister itself. Any other controller is not registered.

Deviation: a controller of a former quorum, whose registration is in a metadata log that another Kafka wrote, stays registered.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ControllerServices
from ottla.broker.cluster.features import CONTROLLER_UNREGISTRATION
from ottla.broker.core.acl import Operation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k94_unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse

API = Api(UnregisterControllerRequest, forwarded=Forwarded.ALWAYS)


@API.on_controller(requires=Operation.ALTER)
def handle(ctx: Context[ControllerServices], request: UnregisterControllerRequest) -> UnregisterControllerResponse:
    """Reject the request with the reason, in the order of Kafka's QuorumController and ClusterControlManager."""
    voter = ctx.services.active.voter
    if request.controller_id == voter.me.node_id:
        return UnregisterControllerResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="Controller cannot unregister itself while it is active."
        )
    if voter.image.metadata_level < CONTROLLER_UNREGISTRATION:
        return UnregisterControllerResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message="The current MetadataVersion is too old to support controller unregistration.",
        )
    if request.controller_id in voter.image.controllers:
        return UnregisterControllerResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="A standalone node does not unregister controllers of a former quorum."
        )
    return UnregisterControllerResponse(
        error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
        error_message=f"Controller ID {request.controller_id} is not currently registered.",
    )

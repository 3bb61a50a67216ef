"""EndQuorumEpoch (key 54), versions 0-1: rejected, because this controller is the only voter (KIP-595)."""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ControllerServices
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum import refusals
from ottla.protocol.messages.k54_end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

API = Api(EndQuorumEpochRequest, throttled=False)


@API.on_controller(requires=Operation.CLUSTER_ACTION)
def handle(ctx: Context[ControllerServices], request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """Reject another node's request to end this leader's epoch, with FENCED_LEADER_EPOCH for an older epoch, otherwise INVALID_REQUEST."""
    return refusals.reject_end_quorum_epoch(ctx.services.active.voter, request)

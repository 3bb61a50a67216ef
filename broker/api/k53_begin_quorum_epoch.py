"""BeginQuorumEpoch (key 53), versions 0-1: rejected, because this controller is the only voter (KIP-595)."""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ControllerServices
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum import refusals
from ottla.protocol.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

API = Api(BeginQuorumEpochRequest, throttled=False)


@API.on_controller(requires=Operation.CLUSTER_ACTION)
def handle(ctx: Context[ControllerServices], request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """Reject another node's claim to lead the quorum, with FENCED_LEADER_EPOCH for an older epoch, otherwise INVALID_REQUEST."""
    return refusals.reject_begin_quorum_epoch(ctx.services.active.voter, request)

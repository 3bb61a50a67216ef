"""Vote (key 52), versions 0-2: rejected, because this controller is the only voter (KIP-595)."""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ControllerServices
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum import refusals
from ottla.protocol.messages.k52_vote import VoteRequest, VoteResponse

API = Api(VoteRequest, throttled=False)


@API.on_controller(requires=Operation.CLUSTER_ACTION)
def handle(ctx: Context[ControllerServices], request: VoteRequest) -> VoteResponse:
    """Return a response that does not grant the vote: this controller is the only voter, and the leader."""
    return refusals.reject_vote(ctx.services.active.voter, request)

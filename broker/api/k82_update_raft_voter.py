"""UpdateRaftVoter (key 82), version 0: rejected, because a quorum of several voters is not supported (KIP-853)."""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ControllerServices
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum import refusals
from ottla.protocol.messages.k82_update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

API = Api(UpdateRaftVoterRequest, throttled=False)


@API.on_controller(requires=Operation.CLUSTER_ACTION)
def handle(_ctx: Context[ControllerServices], _request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
    """Reject the update of a voter's endpoints with UNSUPPORTED_VERSION."""
    return refusals.reject_update_raft_voter()

"""AddRaftVoter (key 80), versions 0-1: rejected, because a quorum of several voters is not supported (KIP-853)."""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ControllerServices
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum.voter_refusals import VoterIds, reject_add_raft_voter
from ottla.protocol.messages.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

API = Api(AddRaftVoterRequest, forwarded=Forwarded.ALWAYS, array_limits={"listeners": 1_000})


@API.on_controller(requires=Operation.ALTER)
def handle(ctx: Context[ControllerServices], request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Reject the addition of a voter to the quorum. The error is that of an invalid request (such as DUPLICATE_VOTER), otherwise
    UNSUPPORTED_VERSION."""
    me = ctx.services.active.voter.me
    return reject_add_raft_voter(VoterIds(me.cluster_id, me.node_id, me.directory_id), request)

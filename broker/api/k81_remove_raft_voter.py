"""RemoveRaftVoter (key 81), version 0: rejected, because the only voter cannot be removed (KIP-853)."""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ControllerServices
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum.voter_refusals import VoterIds, reject_remove_raft_voter
from ottla.protocol.messages.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

API = Api(RemoveRaftVoterRequest, forwarded=Forwarded.ALWAYS)


@API.on_controller(requires=Operation.ALTER)
def handle(ctx: Context[ControllerServices], request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Reject the removal of a voter from the quorum. The error is that of an invalid request, otherwise UNSUPPORTED_VERSION."""
    me = ctx.services.active.voter.me
    return reject_remove_raft_voter(VoterIds(me.cluster_id, me.node_id, me.directory_id), request)

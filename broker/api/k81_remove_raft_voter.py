"""RemoveRaftVoter (key 81), version 0: rejected, because the only voter cannot be removed (KIP-853)."""

from __future__ import annotations

from ottla.broker.api.context import Context, Services
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import QuorumServices
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum.voter_refusals import OnlyVoter, no_voter_removed
from ottla.protocol.messages.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

API = Api(RemoveRaftVoterRequest, forwarded=Forwarded.ALWAYS)


@API.on_controller(requires=Operation.ALTER)
def handle(ctx: Context[QuorumServices], request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Reject the request."""
    me = ctx.services.voter.me
    return no_voter_removed(OnlyVoter(me.cluster_id, me.node_id, me.directory_id), request)


@API.on_broker(requires=Operation.ALTER)
def handle_standalone(ctx: Context[Services], request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Reject the request as a controller does."""
    services = ctx.services
    return no_voter_removed(OnlyVoter(services.cluster_id, services.node_id, services.log_dir.meta.directory_id), request)

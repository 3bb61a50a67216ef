"""AddRaftVoter (key 80), versions 0-1, on a standalone node: rejected, as by Ottla's controller (KIP-853)."""

from __future__ import annotations

from ottla.broker.api.access import for_cluster
from ottla.broker.api.context import Context
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum.voter_refusals import OnlyVoter, no_voter_added
from ottla.protocol.messages.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def _handle(ctx: Context, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Reject the request: a quorum of several voters is not supported."""
    services = ctx.services
    return no_voter_added(OnlyVoter(services.cluster_id, services.node_id, services.log_dir.meta.directory_id), request)


handle = for_cluster(Operation.ALTER, _handle)

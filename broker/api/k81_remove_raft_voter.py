"""RemoveRaftVoter (key 81), version 0, on a standalone node: rejected, as by Ottla's controller (KIP-853)."""

from __future__ import annotations

from ottla.broker.api.access import for_cluster
from ottla.broker.api.context import Context
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum.voter_refusals import OnlyVoter, no_voter_removed
from ottla.protocol.messages.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


def _handle(ctx: Context, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Reject the request: the only voter cannot be removed."""
    services = ctx.services
    return no_voter_removed(OnlyVoter(services.cluster_id, services.node_id, services.log_dir.meta.directory_id), request)


handle = for_cluster(Operation.ALTER, _handle)

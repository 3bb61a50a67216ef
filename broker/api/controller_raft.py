"""The controller's handlers for its quorum: Fetch (key 1) and FetchSnapshot (59) of the metadata log, DescribeQuorum (55), and the
rejection of Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54), AddRaftVoter (80), RemoveRaftVoter (81) and UpdateRaftVoter (82).
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.controller_context import ControllerContext
from ottla.broker.runtime.quorum import refusals
from ottla.broker.runtime.quorum.voter_refusals import OnlyVoter, no_voter_added, no_voter_removed
from ottla.protocol.messages.k01_fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.k52_vote import VoteRequest, VoteResponse
from ottla.protocol.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.protocol.messages.k54_end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.protocol.messages.k55_describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.protocol.messages.k59_fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.protocol.messages.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.protocol.messages.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.protocol.messages.k82_update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse


def fetch(ctx: ControllerContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Return committed records of the metadata log."""
    return ctx.services.serving.fetch(request)


def fetch_snapshot(ctx: ControllerContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Return a part of a metadata snapshot."""
    return ctx.services.serving.fetch_snapshot(request)


def describe_quorum(ctx: ControllerContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Return the voters and observers with their log end offsets."""
    return ctx.services.serving.describe(request)


def vote(ctx: ControllerContext, request: VoteRequest) -> VoteResponse:
    """Reject a vote: this controller is the only voter."""
    return refusals.no_vote(ctx.services.voter, request)


def begin_epoch(ctx: ControllerContext, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """Reject another leader: this controller is the only voter."""
    return refusals.no_other_leader(ctx.services.voter, request)


def end_epoch(ctx: ControllerContext, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """Reject the end of an epoch: this controller is the only voter."""
    return refusals.no_other_end(ctx.services.voter, request)


def add_voter(ctx: ControllerContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Reject a new voter: a quorum of several voters is not supported."""
    return no_voter_added(_only_voter(ctx), request)


def remove_voter(ctx: ControllerContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Reject the removal of a voter."""
    return no_voter_removed(_only_voter(ctx), request)


def update_voter(_: ControllerContext, __: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
    """Reject the update of a voter."""
    return refusals.no_voter_updated()


def _only_voter(ctx: ControllerContext) -> OnlyVoter:
    me = ctx.services.voter.me
    return OnlyVoter(me.cluster_id, me.node_id, me.directory_id)

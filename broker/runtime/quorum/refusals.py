"""Rejects requests to vote, to lead or to join at the quorum's only voter (Kafka's KafkaRaftClient, handleVoteRequest and others).

No other node can lead this quorum, so no such request ends this node's leadership, whatever epoch it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.runtime.quorum.sole_voter import SoleVoter
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k52_vote as k52
from ottla.protocol.messages import k53_begin_quorum_epoch as k53
from ottla.protocol.messages import k54_end_quorum_epoch as k54
from ottla.protocol.messages.k82_update_raft_voter import UpdateRaftVoterResponse

P = TypeVar("P")


def no_vote(voter: SoleVoter, request: k52.VoteRequest) -> k52.VoteResponse:
    """Never grant a vote."""
    error, asked = _checked(voter, request)
    if asked is None:
        return k52.VoteResponse(error_code=error)
    me, at = voter.me, voter.me.endpoints[0]
    if asked.last_offset < 0 or asked.last_offset_epoch < 0 or asked.replica_id < 0:
        error = ErrorCode.INVALID_REQUEST
    elif asked.replica_epoch < voter.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    result = k52.PartitionResult(0, error, me.node_id, voter.epoch, vote_granted=False)
    return k52.VoteResponse(
        topics=[k52.TopicResult(CLUSTER_METADATA, [result])], node_endpoints=[k52.NodeEndpoint(me.node_id, at.host, at.port)]
    )


def no_other_leader(voter: SoleVoter, request: k53.BeginQuorumEpochRequest) -> k53.BeginQuorumEpochResponse:
    """Reject another node's claim to lead the quorum, and name the leader."""
    error, asked = _checked(voter, request)
    if asked is None:
        return k53.BeginQuorumEpochResponse(error_code=error)
    me, at = voter.me, voter.me.endpoints[0]
    result = k53.PartitionResult(0, _of_epoch(voter, asked.leader_epoch), me.node_id, voter.epoch)
    return k53.BeginQuorumEpochResponse(
        topics=[k53.TopicResult(CLUSTER_METADATA, [result])], node_endpoints=[k53.NodeEndpoint(me.node_id, at.host, at.port)]
    )


def no_other_end(voter: SoleVoter, request: k54.EndQuorumEpochRequest) -> k54.EndQuorumEpochResponse:
    """Reject another node's attempt to end this leader's epoch."""
    error, asked = _checked(voter, request)
    if asked is None:
        return k54.EndQuorumEpochResponse(error_code=error)
    me, at = voter.me, voter.me.endpoints[0]
    result = k54.PartitionResult(0, _of_epoch(voter, asked.leader_epoch), me.node_id, voter.epoch)
    return k54.EndQuorumEpochResponse(
        topics=[k54.TopicResult(CLUSTER_METADATA, [result])], node_endpoints=[k54.NodeEndpoint(me.node_id, at.host, at.port)]
    )


def no_voter_updated() -> UpdateRaftVoterResponse:
    """Reject any change of a voter."""
    return UpdateRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


def _of_epoch(voter: SoleVoter, epoch: int) -> ErrorCode:
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < voter.epoch else ErrorCode.INVALID_REQUEST


def _checked(voter: SoleVoter, request: Any) -> tuple[ErrorCode, Any]:
    """Return the metadata partition's part of the request, or the error that rejects the whole request."""
    if request.cluster_id not in {None, voter.me.cluster_id}:
        return ErrorCode.INCONSISTENT_CLUSTER_ID, None
    places: Sequence[tuple[str, Any]] = [(topic.topic_name, each) for topic in request.topics for each in topic.partitions]
    if len(places) != 1 or (places[0][0], places[0][1].partition_index) != (CLUSTER_METADATA, 0):
        return ErrorCode.INVALID_REQUEST, None
    return ErrorCode.NONE, places[0][1]

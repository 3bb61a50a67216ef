"""Rejects the requests Vote, BeginQuorumEpoch, EndQuorumEpoch and UpdateRaftVoter at the quorum's only voter (Kafka's KafkaRaftClient,
handleVoteRequest and others).

No other node can lead this quorum, so no such request ends this node's leadership, whatever epoch it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.runtime.quorum.sole_voter import SoleVoter
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k52_vote as k52
from ottla.protocol.messages import k53_begin_quorum_epoch as k53
from ottla.protocol.messages import k54_end_quorum_epoch as k54
from ottla.protocol.messages.k82_update_raft_voter import UpdateRaftVoterResponse
from ottla.protocol.messages.quorum import EpochPartition, EpochTopic, NodeEndpoint

R = TypeVar("R")


def reject_vote(voter: SoleVoter, request: k52.VoteRequest) -> k52.VoteResponse:
    """Return a response that does not grant the vote, and names this node as the leader."""
    error, partition = _checked(voter, request)
    if partition is None:
        return k52.VoteResponse(error_code=error)
    if partition.last_offset < 0 or partition.last_offset_epoch < 0 or partition.replica_id < 0:
        error = ErrorCode.INVALID_REQUEST
    elif partition.replica_epoch < voter.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    result = k52.PartitionResult(0, error, voter.me.node_id, voter.epoch, vote_granted=False)
    return k52.VoteResponse(topics=[k52.TopicResult(CLUSTER_METADATA, [result])], node_endpoints=_endpoints(voter))


def reject_begin_quorum_epoch(voter: SoleVoter, request: k53.BeginQuorumEpochRequest) -> k53.BeginQuorumEpochResponse:
    """Return a response that rejects another node's claim to lead the quorum (FENCED_LEADER_EPOCH or INVALID_REQUEST), and names this node
    as the leader.
    """
    return _reject_epoch_request(voter, request, k53.BeginQuorumEpochResponse)


def reject_end_quorum_epoch(voter: SoleVoter, request: k54.EndQuorumEpochRequest) -> k54.EndQuorumEpochResponse:
    """Return a response that rejects another node's attempt to end this leader's epoch (FENCED_LEADER_EPOCH or INVALID_REQUEST), and names
    this node as the leader.
    """
    return _reject_epoch_request(voter, request, k54.EndQuorumEpochResponse)


def reject_update_raft_voter() -> UpdateRaftVoterResponse:
    """Return a response that rejects UpdateRaftVoter with UNSUPPORTED_VERSION."""
    return UpdateRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


def _reject_epoch_request(voter: SoleVoter, request: Any, response: Callable[..., R]) -> R:
    error, partition = _checked(voter, request)
    if partition is None:
        return response(error_code=error)
    error = ErrorCode.FENCED_LEADER_EPOCH if partition.leader_epoch < voter.epoch else ErrorCode.INVALID_REQUEST
    result = EpochPartition(0, error, voter.me.node_id, voter.epoch)
    return response(topics=[EpochTopic(CLUSTER_METADATA, [result])], node_endpoints=_endpoints(voter))


def _endpoints(voter: SoleVoter) -> list[NodeEndpoint]:
    at = voter.me.endpoints[0]
    return [NodeEndpoint(voter.me.node_id, at.host, at.port)]


def _checked(voter: SoleVoter, request: Any) -> tuple[ErrorCode, Any]:
    """Check the cluster id and the partition of a Vote, BeginQuorumEpoch or EndQuorumEpoch request. Return the error that rejects the whole
    request (NONE if there is none), and the request's entry for partition 0 of the metadata log (None with an error).
    """
    if request.cluster_id not in {None, voter.me.cluster_id}:
        return ErrorCode.INCONSISTENT_CLUSTER_ID, None
    places: Sequence[tuple[str, Any]] = [(topic.topic_name, each) for topic in request.topics for each in topic.partitions]
    if len(places) != 1 or (places[0][0], places[0][1].partition_index) != (CLUSTER_METADATA, 0):
        return ErrorCode.INVALID_REQUEST, None
    return ErrorCode.NONE, places[0][1]

"""The responses to other nodes that request votes, announce themselves as leader, or ask to join."""

from __future__ import annotations

import pytest

from ottla.broker.runtime.quorum import refusals
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k52_vote as k52
from ottla.protocol.messages import k53_begin_quorum_epoch as k53
from ottla.protocol.messages import k54_end_quorum_epoch as k54
from tests.support.voter_harness import VoterHarness

TOPIC = "__cluster_metadata"


def vote(epoch: int = 9, replica: int = 5, last_offset: int = 10, *, cluster: str = "cluster", topic: str = TOPIC) -> k52.VoteRequest:
    partition_data = k52.PartitionData(0, epoch, replica, last_offset_epoch=1, last_offset=last_offset)
    return k52.VoteRequest(cluster, 1, [k52.TopicData(topic, [partition_data])])


@pytest.mark.parametrize(
    ("vote_request", "error"),
    [
        (vote(), ErrorCode.NONE),
        (vote(0), ErrorCode.FENCED_LEADER_EPOCH),
        (vote(replica=-1), ErrorCode.INVALID_REQUEST),
        (vote(last_offset=-1), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_vote_is_refused_and_the_epoch_unchanged(vote_request: k52.VoteRequest, error: ErrorCode) -> None:
    voter = VoterHarness().begin()
    (result,) = refusals.reject_vote(voter, vote_request).topics[0].partitions
    assert (result.error_code, result.vote_granted, result.leader_id, result.leader_epoch, voter.epoch) == (error, False, 1, 1, 1)


async def test_a_request_for_another_cluster_or_topic_is_refused_entirely() -> None:
    voter = VoterHarness().begin()
    assert refusals.reject_vote(voter, vote(cluster="other")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert refusals.reject_vote(voter, vote(topic="t")).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("epoch", "error"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (9, ErrorCode.INVALID_REQUEST)])
async def test_begin_and_end_quorum_epoch_are_answered_with_the_real_leader(epoch: int, error: ErrorCode) -> None:
    voter = VoterHarness().begin()
    begin = k53.BeginQuorumEpochRequest("cluster", 1, [k53.TopicData(TOPIC, [k53.PartitionData(0, bytes(16), 5, epoch)])])
    end = k54.EndQuorumEpochRequest("cluster", [k54.TopicData(TOPIC, [k54.PartitionData(0, 5, epoch)])])
    for answer in (refusals.reject_begin_quorum_epoch(voter, begin), refusals.reject_end_quorum_epoch(voter, end)):
        (result,) = answer.topics[0].partitions
        assert (result.error_code, result.leader_id, result.leader_epoch) == (error, 1, 1)


def test_update_raft_voter_is_refused() -> None:
    assert refusals.reject_update_raft_voter().error_code == ErrorCode.UNSUPPORTED_VERSION

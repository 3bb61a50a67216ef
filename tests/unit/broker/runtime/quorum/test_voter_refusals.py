"""Voter changes that a quorum of one refuses; the checks before that are compared with Kafka's in the differential."""

from __future__ import annotations

import pytest

from ottla.broker.runtime.quorum.voter_refusals import VoterIds, reject_add_raft_voter, reject_remove_raft_voter
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k80_add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.quorum import Listener

OWN, OTHER, NONE = b"o" * 16, b"x" * 16, bytes(16)
ME = VoterIds("cluster", 1, OWN)
AT = [Listener("CONTROLLER", "h", 1)]


def test_adding_or_removing_a_voter_is_refused_with_advice() -> None:
    answers = [
        reject_add_raft_voter(ME, AddRaftVoterRequest("cluster", 1, 2, OTHER, AT)),
        reject_remove_raft_voter(ME, RemoveRaftVoterRequest(None, 1, OWN)),
    ]
    assert {answer.error_code for answer in answers} == {ErrorCode.UNSUPPORTED_VERSION}
    assert all("Apache Kafka's controllers" in (answer.error_message or "") for answer in answers)


@pytest.mark.parametrize(
    ("cluster", "voter", "directory", "added", "removed"),
    [
        ("another", 2, OTHER, ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (None, -1, OTHER, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
        (None, 2, NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
        (None, 1, OTHER, ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND),
        (None, 2, OTHER, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.VOTER_NOT_FOUND),
    ],
)
def test_the_checks_before_the_refusal_are_kafkas(
    cluster: str | None, voter: int, directory: bytes, added: ErrorCode, removed: ErrorCode
) -> None:
    assert reject_add_raft_voter(ME, AddRaftVoterRequest(cluster, 1, voter, directory, AT)).error_code == added
    assert reject_remove_raft_voter(ME, RemoveRaftVoterRequest(cluster, voter, directory)).error_code == removed


def test_a_voter_needs_an_endpoint() -> None:
    assert reject_add_raft_voter(ME, AddRaftVoterRequest(None, 1, 2, OTHER, [])).error_code == ErrorCode.INVALID_REQUEST

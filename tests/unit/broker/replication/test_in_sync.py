from __future__ import annotations

import pytest

from ottla.broker.replication.in_sync import VERDICTS, InSync, InSyncMember, Proposal, Verdict
from ottla.protocol.error_codes import ErrorCode


def proposing(*nodes: int) -> Proposal:
    return Proposal(3, 5, tuple(InSyncMember(node, 70 + node) for node in nodes))


@pytest.mark.parametrize(
    ("proposed", "maximal"), [((1, 2, 3), {1, 2, 3}), ((1,), {1, 2})], ids=["who would join counts already", "who would leave counts still"]
)
def test_while_a_change_is_under_way_the_greater_set_counts(proposed: tuple[int, ...], maximal: set[int]) -> None:
    pending = InSync.settled((1, 2)).pending(proposing(*proposed))
    assert (pending.committed, pending.maximal, pending.proposal) == ({1, 2}, maximal, proposing(*proposed))


def test_a_settled_set_has_nothing_under_way() -> None:
    assert InSync.settled((1, 2)) == InSync(frozenset({1, 2}), frozenset({1, 2}), None)


def test_a_proposal_is_of_a_recovered_leader() -> None:
    assert proposing(1).recovery_state == 0


def test_only_an_error_that_says_that_nothing_was_done_leads_back() -> None:
    assert {code for code, verdict in VERDICTS.items() if verdict is Verdict.REVERT} == {
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INELIGIBLE_REPLICA,
    }


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH])
def test_an_error_that_says_nothing_of_the_proposal_has_no_verdict_of_its_own(code: ErrorCode) -> None:
    assert code not in VERDICTS

from __future__ import annotations

import pytest

from ottla.broker.replication.in_sync import ERROR_REACTIONS, ErrorReaction, InSync, InSyncMember, Proposal
from ottla.protocol.error_codes import ErrorCode


def proposing(*nodes: int) -> Proposal:
    return Proposal(3, 5, tuple(InSyncMember(node, 70 + node) for node in nodes))


@pytest.mark.parametrize(
    ("proposed", "maximal"), [((1, 2, 3), {1, 2, 3}), ((1,), {1, 2})], ids=["who would join counts already", "who would leave counts still"]
)
def test_pending_proposal_makes_the_maximal_isr_the_larger_set(proposed: tuple[int, ...], maximal: set[int]) -> None:
    pending = InSync.settled((1, 2)).pending(proposing(*proposed))
    assert (pending.committed, pending.maximal, pending.proposal) == ({1, 2}, maximal, proposing(*proposed))


def test_settled_isr_has_no_pending_proposal() -> None:
    assert InSync.settled((1, 2)) == InSync(frozenset({1, 2}), frozenset({1, 2}), None)


def test_proposal_has_the_recovered_state() -> None:
    assert proposing(1).recovery_state == 0


def test_only_errors_without_effect_revert_the_proposal() -> None:
    assert {code for code, reaction in ERROR_REACTIONS.items() if reaction is ErrorReaction.REVERT} == {
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INELIGIBLE_REPLICA,
    }


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH])
def test_unrelated_error_code_has_no_verdict(code: ErrorCode) -> None:
    assert code not in ERROR_REACTIONS

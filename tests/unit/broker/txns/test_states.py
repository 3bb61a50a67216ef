from __future__ import annotations

import pytest

from ottla.broker.txns.states import PREPARED, SETTLED, VALID_TRANSITIONS, TxnState

ENTERED_FROM = {
    TxnState.EMPTY: {TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT},
    TxnState.ONGOING: {TxnState.ONGOING, TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT},
    TxnState.PREPARE_COMMIT: {TxnState.ONGOING},
    TxnState.PREPARE_ABORT: {
        TxnState.ONGOING,
        TxnState.PREPARE_EPOCH_FENCE,
        TxnState.EMPTY,
        TxnState.COMPLETE_COMMIT,
        TxnState.COMPLETE_ABORT,
    },
    TxnState.COMPLETE_COMMIT: {TxnState.PREPARE_COMMIT},
    TxnState.COMPLETE_ABORT: {TxnState.PREPARE_ABORT},
    TxnState.DEAD: {TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT},
    TxnState.PREPARE_EPOCH_FENCE: {TxnState.ONGOING},
}
"""Kafka's TransactionState.validPreviousStates, which looks at the same moves from their other end."""


@pytest.mark.parametrize("state", TxnState)
def test_a_state_is_entered_from_kafkas_predecessors_only(state: TxnState) -> None:
    assert {before for before, after in VALID_TRANSITIONS.items() if state in after} == ENTERED_FROM[state]


def test_the_numbers_are_those_of_the_log() -> None:
    assert [state.value for state in TxnState] == list(range(8))
    assert TxnState(5) is TxnState.COMPLETE_ABORT


def test_the_names_are_those_of_the_wire() -> None:
    assert [state.wire_name for state in TxnState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_a_decided_transaction_is_not_complete() -> None:
    assert not PREPARED & SETTLED

from __future__ import annotations

import pytest

from ottla.broker.txns.states import TxnState
from ottla.broker.txns.transaction import EPOCH_MAX, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Transaction, epoch_exhausted

T0, T1, T2 = 1_000, 2_000, 3_000
A, B = ("a", 0), ("b", 1)


def new(epoch: int = 4) -> Transaction:
    return Transaction("tx", 7, epoch, timeout_ms=60_000, last_update_ms=T0)


def ongoing(epoch: int = 4, version: int = 2) -> Transaction:
    return new(epoch).with_partitions(frozenset({A}), version, T1)


def test_a_transactions_time_starts_with_its_first_partition() -> None:
    later = ongoing().with_partitions(frozenset({B}), 2, T2)
    assert (later.partitions, later.start_ms, later.last_update_ms) == ({A, B}, T1, T2)


def test_without_the_bump_the_decision_keeps_the_epoch() -> None:
    prepared = ongoing(version=0).prepared(commit=True, now_ms=T2)
    assert (prepared.state, prepared.producer_epoch, prepared.version, prepared.start_ms) == (TxnState.PREPARE_COMMIT, 4, 0, T1)
    done = prepared.completed(T2)
    assert (done.state, done.producer_epoch, done.partitions, done.start_ms) == (TxnState.COMPLETE_COMMIT, 4, frozenset(), T1)


def test_with_the_bump_the_decision_starts_the_next_epoch() -> None:
    prepared = ongoing().prepared_with_bump(NO_PRODUCER_ID, commit=False, now_ms=T2)
    assert (prepared.state, prepared.producer_epoch, prepared.last_producer_epoch) == (TxnState.PREPARE_ABORT, 5, 4)
    assert prepared.holder == (7, 5) == prepared.completed(T2).holder


def test_an_abort_without_a_transaction_starts_and_ends_at_once() -> None:
    prepared = new().prepared_with_bump(NO_PRODUCER_ID, commit=False, now_ms=T2)
    assert (prepared.start_ms, prepared.partitions, prepared.completed(T2).state) == (T2, frozenset(), TxnState.COMPLETE_ABORT)


def test_a_rotation_takes_effect_when_the_transaction_is_complete() -> None:
    prepared = ongoing(EPOCH_MAX - 1).prepared_with_bump(99, commit=True, now_ms=T2)
    assert (prepared.producer_id, prepared.producer_epoch, prepared.holder) == (7, EPOCH_MAX, (99, 0))
    done = prepared.completed(T2)
    assert (done.producer_id, done.producer_epoch, done.prev_producer_id, done.next_producer_id) == (99, 0, 7, NO_PRODUCER_ID)


def test_no_epoch_exceeds_the_maximum() -> None:
    assert ongoing(EPOCH_MAX).fenced().producer_epoch == EPOCH_MAX
    assert ongoing(EPOCH_MAX).prepared_with_bump(99, commit=False, now_ms=T2).producer_epoch == EPOCH_MAX


def test_fencing_clears_the_previous_epoch() -> None:
    fenced = ongoing(version=0).fenced()
    assert (fenced.producer_epoch, fenced.last_producer_epoch) == (5, NO_PRODUCER_EPOCH)


def test_initialising_clears_the_previous_transactions_state() -> None:
    done = ongoing().prepared(commit=True, now_ms=T1).completed(T1)
    fresh = done.initialised(5, 4, 30_000, T2)
    assert (fresh.state, fresh.start_ms, fresh.timeout_ms, fresh.partitions) == (TxnState.EMPTY, -1, 30_000, frozenset())


@pytest.mark.parametrize(("epoch", "exhausted"), [(-1, False), (0, False), (32_765, False), (32_766, True), (32_767, True)])
def test_producers_get_at_most_the_second_to_last_epoch(epoch: int, exhausted: bool) -> None:
    assert epoch_exhausted(epoch) is exhausted


def test_an_undefined_transition_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="no legal move"):
        new().prepared(commit=True, now_ms=T1)
    with pytest.raises(AssertionError, match="nothing is decided"):
        ongoing().completed(T1)
    with pytest.raises(AssertionError, match="never given twice"):
        new().rotated(7, -1, 1, T1)
    with pytest.raises(AssertionError, match="only an open"):
        new().fenced()

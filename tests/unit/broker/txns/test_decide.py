"""The decisions of the transaction coordinator: each row of the tables of InitProducerId, AddPartitionsToTxn and EndTxn."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from ottla.broker.txns import decide
from ottla.broker.txns.decide import Decision, Expected
from ottla.broker.txns.states import TxnState
from ottla.broker.txns.transaction import EPOCH_MAX, Transaction
from ottla.protocol.error_codes import ErrorCode

NOW = 5_000
PID, NEW_PID = 7, 100
LAST = EPOCH_MAX - 1
A, B = ("a", 0), ("b", 0)
OK = ErrorCode.NONE
FENCED, CONCURRENT, BAD_STATE = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE
NO_MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
SETTLED = [TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT]
PREPARED = [TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT]


def txn(state: TxnState = TxnState.EMPTY, epoch: int = 4, **changes: Any) -> Transaction:
    partitions = frozenset({A}) if state in {TxnState.ONGOING, *PREPARED} else frozenset()
    base = Transaction("tx", PID, epoch, 60_000, state, partitions, start_ms=1_000, last_update_ms=1_000)
    return base._replace(**changes)


def init(stored: Transaction | None, expected: tuple[int, int] | None = None, **changes: Any) -> Decision:
    ids = count(NEW_PID)
    arguments: dict[str, Any] = {
        "timeout_ms": 30_000,
        "timeout_ms_max": 900_000,
        "server_version": 2,
        "new_producer_id": lambda: next(ids),
        "now_ms": NOW,
    }
    return decide.init_producer_id(stored, "tx", None if expected is None else Expected(*expected), **(arguments | changes))


def end(stored: Transaction | None, version: int, commit: bool, producer: tuple[int, int] = (PID, 4)) -> Decision:
    return decide.end_txn(stored, "tx", *producer, commit=commit, client_version=version, new_producer_id=lambda: NEW_PID, now_ms=NOW)


# --- InitProducerId -----------------------------------------------------------------------------------------------------------------


def test_an_unknown_id_gets_a_new_producer_id_with_epoch_0() -> None:
    decision = init(None)
    assert (decision.error, decision.producer_id, decision.producer_epoch) == (OK, NEW_PID, 0)
    assert decision.write is not None
    assert (decision.write.state, decision.write.timeout_ms, decision.write.start_ms) == (TxnState.EMPTY, 30_000, -1)


def test_an_unknown_id_ignores_the_callers_producer_id() -> None:
    assert init(None, (0, 0)).error is OK
    assert init(None, (5_000, 32_767)).producer_epoch == 0


@pytest.mark.parametrize("state", SETTLED)
def test_an_id_without_an_open_transaction_gets_the_next_epoch(state: TxnState) -> None:
    decision = init(txn(state))
    assert (decision.error, decision.producer_id, decision.producer_epoch) == (OK, PID, 5)
    assert decision.write is not None
    assert (decision.write.state, decision.write.last_producer_epoch, decision.write.timeout_ms) == (TxnState.EMPTY, -1, 30_000)


def test_the_current_producer_gets_the_next_epoch_and_its_own_is_remembered() -> None:
    decision = init(txn(), (PID, 4))
    assert decision.producer_epoch == 5
    assert decision.write is not None
    assert decision.write.last_producer_epoch == 4


def test_a_retried_init_gets_the_same_epoch() -> None:
    decision = init(txn(epoch=5, last_producer_epoch=4), (PID, 4))
    assert (decision.error, decision.producer_epoch) == (OK, 5)


@pytest.mark.parametrize("held", [(PID, 3), (PID, 6), (PID + 1, 4), (-2, 4), (PID, -5)])
def test_another_producer_is_fenced(held: tuple[int, int]) -> None:
    decision = init(txn(last_producer_epoch=-1), held)
    assert (decision.error, decision.write) == (FENCED, None)


@pytest.mark.parametrize("epoch", [LAST, EPOCH_MAX])
@pytest.mark.parametrize("state", SETTLED)
def test_exhausted_epochs_give_a_new_producer_id(state: TxnState, epoch: int) -> None:
    decision = init(txn(state, epoch))
    assert (decision.error, decision.producer_id, decision.producer_epoch) == (OK, NEW_PID, 0)
    assert decision.write is not None
    assert (decision.write.last_producer_epoch, decision.write.prev_producer_id) == (-1, PID)


def test_a_rotated_producers_retry_is_recognised() -> None:
    rotated = init(txn(epoch=LAST), (PID, LAST)).write
    assert rotated is not None
    assert (rotated.producer_id, rotated.producer_epoch, rotated.last_producer_epoch) == (NEW_PID, 0, LAST)
    again = init(rotated, (PID, LAST))
    assert (again.error, again.producer_id, again.producer_epoch) == (OK, NEW_PID, 0)
    assert init(rotated, (PID, LAST - 1)).error is FENCED


def test_a_rotated_producers_late_init_does_not_abort_the_new_producers_transaction() -> None:
    ended = end(txn(TxnState.ONGOING, LAST, version=2), 2, True, (PID, LAST)).write
    assert ended is not None
    done = ended.completed(NOW)
    assert (done.producer_id, init(done, (PID, LAST)).error) == (NEW_PID, OK)
    begun = done.with_partitions(frozenset({A}), 2, NOW)
    assert init(begun, (PID, LAST)) == Decision(FENCED)
    assert end(begun, 2, True, (PID, LAST)).error is NO_MAPPING


def test_only_the_current_producer_rotates_at_the_last_epoch() -> None:
    stored = txn(epoch=LAST, last_producer_epoch=LAST - 1)
    assert init(stored, (PID, 3)) == Decision(FENCED)
    again = init(stored, (PID, LAST - 1))
    assert (again.error, again.producer_id, again.producer_epoch) == (OK, PID, LAST), "a retry of what was answered before"


@pytest.mark.parametrize("state", PREPARED)
@pytest.mark.parametrize("expected", [None, (PID, 4), (99, 9)])
def test_init_during_marker_writes_gets_concurrent_transactions(state: TxnState, expected: tuple[int, int] | None) -> None:
    assert init(txn(state), expected) == Decision(CONCURRENT)


def test_init_aborts_an_open_transaction_with_one_epoch_bump_in_version_2() -> None:
    decision = init(txn(TxnState.ONGOING, version=2))
    assert decision.error is CONCURRENT
    after = decision.write
    assert after is not None
    assert (after.state, after.producer_epoch, after.last_producer_epoch, after.version) == (TxnState.PREPARE_ABORT, 5, 4, 2)
    assert init(after.completed(NOW)).producer_epoch == 6


@pytest.mark.parametrize("server_version", [0, 1])
def test_an_open_transaction_is_fenced_and_aborted_below_version_2(server_version: int) -> None:
    after = init(txn(TxnState.ONGOING), server_version=server_version).write
    assert after is not None
    assert (after.state, after.producer_epoch, after.last_producer_epoch, after.version) == (TxnState.PREPARE_ABORT, 5, -1, 0)


def test_fencing_at_the_last_epoch_gives_a_new_producer_id() -> None:
    rotating = init(txn(TxnState.ONGOING, LAST)).write
    assert rotating is not None
    assert (rotating.producer_epoch, rotating.next_producer_id) == (EPOCH_MAX, NEW_PID)
    assert rotating.completed(NOW).holder == (NEW_PID, 0)
    fenced = init(txn(TxnState.ONGOING, LAST), server_version=0).write
    assert fenced is not None
    assert fenced.producer_epoch == EPOCH_MAX
    assert init(fenced.completed(NOW)).producer_id == NEW_PID


def test_only_the_producer_id_aborts_an_open_transaction() -> None:
    assert init(txn(TxnState.ONGOING), (PID, 0)) == init(txn(TxnState.ONGOING))
    assert init(txn(TxnState.ONGOING), (PID + 1, 4)) == Decision(FENCED)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    assert init(txn(), timeout_ms=timeout_ms) == Decision(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    assert init(txn(), timeout_ms=900_000).error is OK


# --- AddPartitionsToTxn -------------------------------------------------------------------------------------------------------------


def add(
    stored: Transaction | None, *partitions: tuple[str, int], producer: tuple[int, int] = (PID, 4), transactional_id: str = "tx"
) -> Decision:
    return decide.add_partitions(stored, transactional_id, *producer, frozenset(partitions), client_version=2, now_ms=NOW)


@pytest.mark.parametrize("state", SETTLED)
def test_the_first_partition_opens_a_transaction(state: TxnState) -> None:
    after = add(txn(state), A).write
    assert after is not None
    assert (after.state, after.partitions, after.start_ms, after.version) == (TxnState.ONGOING, {A}, NOW, 2)


def test_more_partitions_keep_the_transactions_start() -> None:
    after = add(txn(TxnState.ONGOING), B).write
    assert after is not None
    assert (after.partitions, after.start_ms) == ({A, B}, 1_000)


def test_an_added_partition_is_not_written_again() -> None:
    assert add(txn(TxnState.ONGOING), A) == Decision(producer_id=PID, producer_epoch=4)


@pytest.mark.parametrize("state", PREPARED)
@pytest.mark.parametrize("producer", [(PID, 4), (PID, 3), (99, 0)])
def test_no_partition_is_added_during_marker_writes(state: TxnState, producer: tuple[int, int]) -> None:
    """This holds for every producer id: after a rotation, the id that the producer will use next is not yet the current one."""
    assert add(txn(state), A, producer=producer) == Decision(CONCURRENT)


@pytest.mark.parametrize("state", [*SETTLED, TxnState.ONGOING])
def test_only_the_current_producer_adds_partitions(state: TxnState) -> None:
    assert add(txn(state), A, producer=(99, 4)) == Decision(NO_MAPPING)
    assert [add(txn(state), A, producer=(PID, epoch)).error for epoch in (-1, 3, 5)] == [FENCED] * 3


def test_an_unknown_id_accepts_no_partitions() -> None:
    assert add(None, A) == Decision(NO_MAPPING)
    assert add(txn(), A, transactional_id="") == Decision(ErrorCode.INVALID_REQUEST)


def verify(stored: Transaction | None, producer: tuple[int, int] = (PID, 4), transactional_id: str = "tx") -> dict[Any, ErrorCode]:
    return decide.verify_partitions(stored, transactional_id, *producer, frozenset({A, B}))


def test_a_verification_distinguishes_added_partitions() -> None:
    assert verify(txn(TxnState.ONGOING)) == {A: OK, B: ErrorCode.TRANSACTION_ABORTABLE}
    assert verify(txn()) == dict.fromkeys([A, B], ErrorCode.TRANSACTION_ABORTABLE)


@pytest.mark.parametrize(
    ("stored", "producer", "error"),
    [
        (None, (PID, 4), NO_MAPPING),
        (txn(TxnState.ONGOING), (99, 4), NO_MAPPING),
        (txn(TxnState.ONGOING), (PID, 3), FENCED),
        (txn(TxnState.PREPARE_COMMIT), (PID, 4), CONCURRENT),
        (txn(TxnState.PREPARE_ABORT), (PID, 3), FENCED),
    ],
)
def test_another_producers_verification_fails_for_all_partitions(
    stored: Transaction | None, producer: tuple[int, int], error: ErrorCode
) -> None:
    assert verify(stored, producer) == {A: error, B: error}


def test_an_empty_id_is_invalid() -> None:
    assert verify(txn(), transactional_id="")[A] is ErrorCode.INVALID_REQUEST


# --- EndTxn of version 0 and 1 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (TxnState.COMPLETE_COMMIT, OK, BAD_STATE),
        (TxnState.COMPLETE_ABORT, BAD_STATE, OK),
        (TxnState.PREPARE_COMMIT, CONCURRENT, BAD_STATE),
        (TxnState.PREPARE_ABORT, BAD_STATE, CONCURRENT),
        (TxnState.EMPTY, BAD_STATE, BAD_STATE),
    ],
)
def test_ending_without_an_open_transaction_succeeds_only_for_a_retry(state: TxnState, commit: ErrorCode, abort: ErrorCode) -> None:
    decisions = end(txn(state), 0, True), end(txn(state), 0, False)
    assert [decision.error for decision in decisions] == [commit, abort]
    assert [decision.write for decision in decisions] == [None, None]


@pytest.mark.parametrize(("commit", "state"), [(True, TxnState.PREPARE_COMMIT), (False, TxnState.PREPARE_ABORT)])
def test_ending_an_open_transaction_keeps_the_epoch_in_version_1(commit: bool, state: TxnState) -> None:
    after = end(txn(TxnState.ONGOING), 0, commit).write
    assert after is not None
    assert (after.state, after.producer_epoch, after.version, after.partitions) == (state, 4, 0, {A})


def test_the_requests_transaction_version_applies() -> None:
    """A client with transaction version 0 takes over from one with version 2."""
    assert end(txn(TxnState.COMPLETE_COMMIT, version=2), 0, True).error is OK


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("state", [*SETTLED, TxnState.ONGOING])
def test_only_the_current_producer_ends_a_transaction(state: TxnState, version: int) -> None:
    assert end(txn(state), version, True, (99, 4)) == Decision(NO_MAPPING)
    assert [end(txn(state), version, True, (PID, epoch)).error for epoch in (-1, 2, 5)] == [FENCED] * 3
    assert end(None, version, True) == Decision(NO_MAPPING)


# --- EndTxn of version 2 ------------------------------------------------------------------------------------------------------------

RETRY, CURRENT = (PID, 3), (PID, 4)


@pytest.mark.parametrize(
    ("state", "producer", "commit", "abort"),
    [
        (TxnState.EMPTY, RETRY, FENCED, FENCED),
        (TxnState.EMPTY, CURRENT, BAD_STATE, "bump"),
        (TxnState.COMPLETE_ABORT, RETRY, BAD_STATE, OK),
        (TxnState.COMPLETE_ABORT, CURRENT, BAD_STATE, "bump"),
        (TxnState.COMPLETE_COMMIT, RETRY, OK, BAD_STATE),
        (TxnState.COMPLETE_COMMIT, CURRENT, BAD_STATE, "bump"),
        (TxnState.PREPARE_COMMIT, RETRY, CONCURRENT, BAD_STATE),
        (TxnState.PREPARE_ABORT, RETRY, BAD_STATE, CONCURRENT),
        (TxnState.PREPARE_COMMIT, CURRENT, CONCURRENT, CONCURRENT),
        (TxnState.PREPARE_ABORT, CURRENT, CONCURRENT, CONCURRENT),
        (TxnState.PREPARE_COMMIT, (PID, 2), FENCED, FENCED),
        (TxnState.PREPARE_ABORT, (PID, 5), FENCED, FENCED),
        (TxnState.ONGOING, RETRY, FENCED, FENCED),
    ],
)
def test_the_epoch_distinguishes_a_retry_from_the_next_transaction(
    state: TxnState, producer: tuple[int, int], commit: ErrorCode, abort: ErrorCode | str
) -> None:
    stored = txn(state, version=2)
    assert end(stored, 2, True, producer).error is commit
    decision = end(stored, 2, False, producer)
    if abort == "bump":
        assert decision.write is not None
        assert (decision.error, decision.write.state, decision.write.producer_epoch) == (OK, TxnState.PREPARE_ABORT, 5)
        assert (decision.producer_id, decision.producer_epoch, decision.write.start_ms) == (PID, 5, NOW)
    else:
        assert (decision.error, decision.write) == (abort, None)


@pytest.mark.parametrize(("commit", "state"), [(True, TxnState.PREPARE_COMMIT), (False, TxnState.PREPARE_ABORT)])
def test_ending_a_transaction_returns_the_next_epoch_in_version_2(commit: bool, state: TxnState) -> None:
    decision = end(txn(TxnState.ONGOING, version=2), 2, commit)
    assert decision.write is not None
    assert (decision.write.state, decision.write.producer_epoch, decision.producer_epoch) == (state, 5, 5)


def test_the_coordinators_fencing_epoch_is_not_returned_to_a_retry() -> None:
    fenced = txn(TxnState.ONGOING, LAST).fenced().prepared(commit=False, now_ms=NOW)
    assert end(fenced, 2, False, (PID, LAST)).error is CONCURRENT
    assert end(fenced.completed(NOW), 2, False, (PID, LAST)) == Decision(FENCED)


def test_a_retry_gets_the_first_response() -> None:
    retried = end(txn(TxnState.COMPLETE_COMMIT, version=2), 2, True, RETRY)
    assert (retried.error, retried.producer_id, retried.producer_epoch, retried.write) == (OK, PID, 4, None)


def test_ending_at_the_last_epoch_gives_a_new_producer_id_and_recognises_a_retry() -> None:
    decision = end(txn(TxnState.ONGOING, LAST, version=2), 2, True, (PID, LAST))
    assert (decision.producer_id, decision.producer_epoch) == (NEW_PID, 0)
    prepared = decision.write
    assert prepared is not None
    assert end(prepared, 2, True, (PID, LAST)).error is CONCURRENT
    assert end(prepared, 2, False, (NEW_PID, 0)).error is CONCURRENT, "the next transaction's, come before this one is complete"
    done = prepared.completed(NOW)
    retried = end(done, 2, True, (PID, LAST))
    assert (retried.error, retried.producer_id, retried.producer_epoch) == (OK, NEW_PID, 0)
    assert end(done, 2, True, (PID, LAST - 1)) == Decision(NO_MAPPING)


def test_an_abort_without_a_transaction_rotates_at_the_last_epoch() -> None:
    decision = end(txn(epoch=LAST), 2, False, (PID, LAST))
    assert (decision.producer_id, decision.producer_epoch) == (NEW_PID, 0)


def test_a_delayed_commit_ends_the_next_transaction_in_version_1_and_is_refused_in_version_2() -> None:
    """In transaction version 1 a late EndTxn can end the producer's next transaction; KIP-890 closes that gap."""
    first = txn(TxnState.ONGOING)
    for version, error in [(0, OK), (2, FENCED)]:
        done = end(first, version, True).write
        assert done is not None
        second = add(done.completed(NOW), B, producer=done.holder).write
        assert second is not None
        assert end(second, version, True).error is error


@pytest.mark.parametrize("version", [0, 2])
def test_an_empty_transactional_id_is_rejected(version: int) -> None:
    decision = decide.end_txn(txn(), "", PID, 4, commit=True, client_version=version, new_producer_id=lambda: NEW_PID, now_ms=NOW)
    assert decision == Decision(ErrorCode.INVALID_REQUEST)


def test_initialising_without_an_id_is_refused() -> None:
    decision = decide.init_producer_id(
        None, "", None, timeout_ms=1, timeout_ms_max=1, server_version=2, new_producer_id=lambda: NEW_PID, now_ms=NOW
    )
    assert decision == Decision(ErrorCode.INVALID_REQUEST)

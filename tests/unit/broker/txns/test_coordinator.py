from __future__ import annotations

from ottla.broker.txns.coordinator import TxnCoordinator
from ottla.broker.txns.states import TxnState
from ottla.broker.txns.transaction import Transaction
from ottla.broker.txns.txn_records import TxnRecord

A = frozenset({("a", 0)})


def machine(*transactions: Transaction) -> TxnCoordinator:
    made = TxnCoordinator()
    for offset, txn in enumerate(transactions):
        made.apply(TxnRecord(txn.transactional_id, txn), offset)
    return made


def open_since(start_ms: int, transactional_id: str = "tx", timeout_ms: int = 1_000) -> Transaction:
    return Transaction(transactional_id, 1, 0, timeout_ms, TxnState.ONGOING, A, start_ms, start_ms)


def test_the_last_record_of_an_id_applies_and_a_tombstone_removes_it() -> None:
    made = machine(open_since(0), open_since(5))
    assert made.transactions["tx"].start_ms == 5
    made.apply(TxnRecord("tx", None), 2)
    made.apply(TxnRecord("never seen", None), 3)
    assert made.transactions == {}
    assert made.timed_out(10**9) == []


def test_a_transaction_times_out_after_its_timeout() -> None:
    made = machine(open_since(0, "short", 1_000), open_since(0, "long", 60_000))
    assert made.timed_out(1_000) == []
    assert [txn.transactional_id for txn in made.timed_out(1_001)] == ["short"]


def test_only_open_transactions_time_out() -> None:
    made = machine(open_since(0))
    made.apply(TxnRecord("tx", open_since(0)._replace(state=TxnState.PREPARE_ABORT)), 1)
    assert made.timed_out(10**9) == []


def test_unused_ids_without_an_open_transaction_expire() -> None:
    states = [TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT, TxnState.ONGOING, TxnState.PREPARE_COMMIT]
    made = machine(*(open_since(100, state.name)._replace(state=state) for state in states))
    assert list(made.expired(1_099, 1_000)) == []
    assert [record.transactional_id for record in made.expired(1_100, 1_000)] == ["EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"]


def test_decided_incomplete_transactions_are_found_after_loading() -> None:
    prepared = open_since(0, "b")._replace(state=TxnState.PREPARE_COMMIT)
    assert machine(open_since(0, "a"), prepared).prepared() == [prepared]


def test_transient_states_in_the_log_are_decoded_as_their_stored_states() -> None:
    made = machine(open_since(0, "dead")._replace(state=TxnState.DEAD), open_since(0, "fence")._replace(state=TxnState.PREPARE_EPOCH_FENCE))
    assert list(made.transactions) == ["fence"]
    assert [txn.transactional_id for txn in made.timed_out(10**9)] == ["fence"]


def test_markers_in_the_transaction_log_are_ignored() -> None:
    made = machine(open_since(0))
    made.end_transaction(1, commit=True)
    assert made.transactions["tx"].state is TxnState.ONGOING

"""The states of a transactional id and the transitions between them (Kafka's `TransactionState`).

PrepareEpochFence is never stored: Kafka's coordinator uses it in memory, between bumping the epoch and writing PrepareAbort. Here both are
one step.
"""

from __future__ import annotations

from enum import IntEnum


class TxnState(IntEnum):
    """State of a transactional id; the number is the one in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """The state's name in DescribeTransactions and ListTransactions, for example `CompleteCommit`."""
        return self.name.title().replace("_", "")


VALID_TRANSITIONS: dict[TxnState, frozenset[TxnState]] = {
    TxnState.EMPTY: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT, TxnState.DEAD}),
    TxnState.ONGOING: frozenset({TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT, TxnState.PREPARE_EPOCH_FENCE}),
    TxnState.PREPARE_COMMIT: frozenset({TxnState.COMPLETE_COMMIT}),
    TxnState.PREPARE_ABORT: frozenset({TxnState.COMPLETE_ABORT}),
    TxnState.COMPLETE_COMMIT: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT, TxnState.DEAD}),
    TxnState.COMPLETE_ABORT: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT, TxnState.DEAD}),
    TxnState.DEAD: frozenset(),
    TxnState.PREPARE_EPOCH_FENCE: frozenset({TxnState.PREPARE_ABORT}),
}
"""The states that may follow each state. EMPTY, COMPLETE_COMMIT and COMPLETE_ABORT are followed by PREPARE_ABORT when a producer of
transaction version 2 aborts a transaction that has no partitions."""

assert set(VALID_TRANSITIONS) == set(TxnState), "every state has a row"

PREPARED = frozenset({TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT})
"""The states in which the outcome is decided and markers are still to be written. Until they are written, requests are rejected with
CONCURRENT_TRANSACTIONS."""

SETTLED = frozenset({TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})
"""The states without an open transaction: the transactional id may begin one, be initialised again, or expire."""

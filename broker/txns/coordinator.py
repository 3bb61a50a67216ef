"""The state machine of the transactional ids in one partition of `__transaction_state`.

Invariants:
- `apply` is the only way to change the state, live and while the log is loaded.
- An expired id is removed; the state Dead is never stored. No coordinator writes records with Dead or PrepareEpochFence. If the log has
  one, Dead is read as the removal of the id, and PrepareEpochFence as an open transaction, which will time out and be aborted.
- The ids with an open transaction are indexed, so that the search for timeouts ignores all others.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.txns.states import PREPARED, SETTLED, TxnState
from ottla.broker.txns.transaction import NO_PRODUCER_ID, Transaction
from ottla.broker.txns.txn_records import TxnRecord


class TxnCoordinator:
    """The state machine of the transactional ids in one partition of `__transaction_state`. It implements the protocol `Machine` of
    `ottla.broker.runtime.coordination.shard`."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._open: dict[str, None] = {}

    def apply(self, record: TxnRecord, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of `__transaction_state` to the state in memory: store the transactional id's state, or remove the id (value None
        or state Dead)."""
        transactional_id, value = record.transactional_id, record.value
        if value is not None and value.state is TxnState.PREPARE_EPOCH_FENCE:
            value = value._replace(state=TxnState.ONGOING)
        if value is None or value.state is TxnState.DEAD:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = value
        if value is not None and value.state is TxnState.ONGOING:
            self._open[transactional_id] = None
        else:
            self._open.pop(transactional_id, None)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Do nothing: `__transaction_state` is never written inside a transaction, so a marker in it has no meaning."""

    def timed_out(self, now_ms: int) -> list[Transaction]:
        """Return the transactions that have been open for longer than their transaction timeout."""
        found = (self.transactions[transactional_id] for transactional_id in self._open)
        return [txn for txn in found if txn.start_ms + txn.timeout_ms < now_ms]

    def expired(self, now_ms: int, expiration_ms: int) -> Iterator[TxnRecord]:
        """Yield tombstones of transactional ids that were not used for `expiration_ms`; each may be appended without the others."""
        for txn in list(self.transactions.values()):
            if txn.state in SETTLED and txn.last_update_ms <= now_ms - expiration_ms:
                yield TxnRecord(txn.transactional_id, None)

    def prepared(self) -> list[Transaction]:
        """Return the transactions in PrepareCommit or PrepareAbort, whose markers must be written (again) after the log was loaded."""
        return [txn for txn in self.transactions.values() if txn.state in PREPARED]

"""The transactional ids of one partition of `__transaction_state`, as one machine.

Rules that hold here:
- `apply` is the only way to change anything, live and when the log is read back;
- an id that expired is gone; state Dead is never stored. A record that says Dead or PrepareEpochFence, which no coordinator writes, is read
  as what it must have been: forgotten, or still to be aborted;
- which ids have an open transaction is kept beside them, so that looking for timeouts costs nothing for the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.txns.states import PREPARED, SETTLED, TxnState
from ottla.broker.txns.transaction import NO_PRODUCER_ID, Transaction
from ottla.broker.txns.txn_records import TxnRecord


class TxnCoordinator:
    """See the module. A `Machine` of `ottla.broker.runtime.coordination.shard`."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._open: dict[str, None] = {}

    def apply(self, record: TxnRecord, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """The record is in the log."""
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
        """Nobody writes to `__transaction_state` inside a transaction, so its markers mean nothing."""

    def timed_out(self, now_ms: int) -> list[Transaction]:
        """Open transactions that have lasted longer than their own timeout."""
        found = (self.transactions[transactional_id] for transactional_id in self._open)
        return [txn for txn in found if txn.start_ms + txn.timeout_ms < now_ms]

    def expired(self, now_ms: int, expiration_ms: int) -> Iterator[TxnRecord]:
        """Tombstones of ids that nobody has used for so long; each stands for itself."""
        for txn in list(self.transactions.values()):
            if txn.state in SETTLED and txn.last_update_ms <= now_ms - expiration_ms:
                yield TxnRecord(txn.transactional_id, None)

    def prepared(self) -> list[Transaction]:
        """Decided transactions whose markers have to be written (again) after the log was read back."""
        return [txn for txn in self.transactions.values() if txn.state in PREPARED]

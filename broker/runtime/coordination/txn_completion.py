"""The second phase of a transaction: sends a marker to each of its partitions, then writes the Complete record.

Invariants:

* No marker is sent before the Prepare record is committed, and Complete is written only after all markers are committed. Otherwise a power
  loss could leave a partition's transaction open forever. Steps that need not wait happen in the same turn of the event loop, except that
  a transaction of more than MARKERS_AT_ONCE partitions gets its markers in several turns.
* Each partition gets one marker, unless the coordinator crashes or moves in between. The next coordinator sends all markers again; a second
  marker has no effect.
* A partition that rejects its marker for now (disk error, offsets partition still loading, unreachable leader) is retried by a timer,
  independent of the others. A deleted topic needs no marker.
* If the coordinator has moved, or a partition has seen a newer coordinator epoch or producer epoch, this broker stops the completion and
  the new coordinator does it.

Source: Kafka's TransactionMarkerChannelManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import TimerHandle, Timers
from ottla.broker.runtime.coordination.shard import Committed, ShardState, failure_of
from ottla.broker.runtime.coordination.txn_markers import SendMarker
from ottla.broker.txns.transaction import TopicPartition, Transaction
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

_SUPERSEDED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_NOTHING_OPEN = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""Errors of a partition that cannot have an open transaction, so that it needs no marker (Kafka's
TransactionMarkerRequestCompletionHandler)."""


class TransactionFaults(Protocol):
    """The injected faults (fault rules of a test) that can stop the completion of a transaction before one of its steps, such as the
    sending of a marker.
    """

    active: bool

    def stops_at(
        self, step: str, transactional_id: str, resume: Callable[[], object], topic: str | None = None, partition: int | None = None, /
    ) -> bool:
        """Return whether a fault rule stops the transaction before this step: "prepared" (sending the first marker), "marker" (sending one
        to the given partition) or "marked" (writing the Complete record). `resume` is called when the rule is removed.
        """
        ...


class TransactionShard(Protocol):
    """The shard (partition of `__transaction_state`) to which a transaction's states are written."""

    epoch: int
    state: ShardState

    def write(self, txn: Transaction, /) -> Committed:
        """Append the transaction's new state to the shard. Return None if it is committed already, otherwise a future that is done when it
        is. Raises Rejected if the append fails.
        """
        ...


@dataclass(slots=True)
class _Work:
    """A transaction whose Prepare record is committed and whose Complete record is not written yet. `left` are the partitions to which a
    marker must be sent; `waiting` is the number of sent markers that are not committed yet.
    """

    shard: TransactionShard
    txn: Transaction
    left: set[TopicPartition]
    waiting: int = 0
    retry_ms: int = limits.MARKER_RETRY_MS
    timer: TimerHandle | None = None

    @property
    def marker(self) -> TxnMarker:
        """The transaction marker to send, which is the same for every partition of the transaction."""
        txn = self.txn
        return TxnMarker(txn.producer_id, txn.producer_epoch, txn.commits, self.shard.epoch, txn.version)


class TxnCompletion:
    """Completes prepared transactions: writes a marker to each partition of a transaction, then the transaction's Complete record. `exists`
    returns whether the cluster has a partition; a deleted partition needs no marker.
    """

    def __init__(
        self, send: SendMarker, timers: Timers, clock: Clock, exists: Callable[[TopicPartition], bool], *, faults: TransactionFaults
    ) -> None:
        self._send = send
        self._timers = timers
        self._clock = clock
        self._exists = exists
        self._faults = faults
        self._work: dict[str, _Work] = {}
        self._last_turn_ms = 0
        """The time (monotonic clock) of the last turn of the event loop that is reserved for further markers of a large transaction."""

    def __len__(self) -> int:
        return len(self._work)

    def begin(self, shard: TransactionShard, txn: Transaction, decided: Committed = None) -> None:
        """Complete a prepared transaction once its Prepare record is committed. `decided` is the future of that commit, None if the record
        is committed already. If `decided` fails, this broker does not complete the transaction.
        """
        if decided is None:
            self._prepared(shard, txn)
            return

        def resume(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._prepared(shard, txn)

        decided.add_done_callback(resume)

    def stop(self, shard: TransactionShard | None = None) -> None:
        """Stop the completion of all transactions, or of the transactions in `shard`. The next coordinator continues from the log."""
        for work in list(self._work.values()):
            if shard is None or work.shard is shard:
                self._leave(work)

    def _prepared(self, shard: TransactionShard, txn: Transaction) -> None:
        faults = self._faults
        if shard.state is ShardState.CLOSED:
            return
        if faults.active and faults.stops_at("prepared", txn.transactional_id, partial(self._prepared, shard, txn)):
            return
        work = self._work[txn.transactional_id] = _Work(shard, txn, set(txn.partitions))
        self._send_all(work)

    def _send_all(self, work: _Work) -> None:
        self._send_some(work, sorted(work.left))

    def _send_some(self, work: _Work, tps: list[TopicPartition]) -> None:
        """Send the marker to the first MARKERS_AT_ONCE of these partitions, and to the others in later turns of the event loop."""
        txn, marker = work.txn, work.marker
        work.timer = None
        for tp in tps[: limits.MARKERS_AT_ONCE]:
            if self._faults.active and self._faults.stops_at("marker", txn.transactional_id, partial(self._retry, work), *tp):
                continue
            try:
                committed = self._send(tp, marker)
            except Rejected as refusal:
                self._refused(work, tp, refusal)
                if not self._is_current(work):
                    return
                continue
            work.left.discard(tp)
            if committed is not None:
                work.waiting += 1
                committed.add_done_callback(partial(self._sent, work, tp))
        if later := tps[limits.MARKERS_AT_ONCE :]:
            self._last_turn_ms = max(self._clock.mono_ms(), self._last_turn_ms) + limits.MARKERS_PAUSE_MS
            work.timer = self._timers.schedule(self._last_turn_ms, partial(self._send_some, work, later))
            return
        self._settle(work)

    def _retry(self, work: _Work) -> None:
        """Send the transaction's remaining markers, because the fault rule that held them back was removed."""
        if self._is_current(work):
            if work.timer is not None:
                work.timer.cancel()
            self._send_all(work)

    def _refused(self, work: _Work, tp: TopicPartition, refusal: Rejected) -> None:
        name = work.txn.transactional_id
        if refusal.code in _SUPERSEDED:
            logger.warning("Transaction %r is left to a newer coordinator: %s-%d rejects the marker: %s", name, *tp, refusal)
            self._leave(work)
        elif refusal.code in _NOTHING_OPEN or not self._exists(tp):
            work.left.discard(tp)
        elif work.retry_ms == limits.MARKER_RETRY_MS:
            logger.warning("The marker of transaction %r for %s-%d is retried: %s", name, *tp, refusal)

    def _sent(self, work: _Work, tp: TopicPartition, done: asyncio.Future[None]) -> None:
        work.waiting -= 1
        refusal = failure_of(done)
        if not self._is_current(work):
            return
        if refusal is not None:
            work.left.add(tp)
            self._refused(work, tp, refusal)
        self._settle(work)

    def _settle(self, work: _Work) -> None:
        if not self._is_current(work) or (work.waiting and not work.left):
            return
        if not work.left:
            faults, name = self._faults, work.txn.transactional_id
            if faults.active and faults.stops_at("marked", name, partial(self._settle, work)):
                return
            if self._complete(work):
                return
        if work.timer is None:
            work.timer = self._timers.schedule(self._clock.mono_ms() + work.retry_ms, partial(self._send_all, work))
            work.retry_ms = min(2 * work.retry_ms, limits.MARKER_RETRY_MS_MAX)

    def _is_current(self, work: _Work) -> bool:
        return self._work.get(work.txn.transactional_id) is work

    def _leave(self, work: _Work) -> None:
        if work.timer is not None:
            work.timer.cancel()
        del self._work[work.txn.transactional_id]

    def _complete(self, work: _Work) -> bool:
        name = work.txn.transactional_id
        try:
            work.shard.write(work.txn.completed(self._clock.now_ms()))
        except Rejected as error:
            logger.warning("Transaction %r cannot be completed yet: %s", name, error)
            return False
        del self._work[name]
        return True

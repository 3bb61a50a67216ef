"""The second phase of a transaction: from a decision that is committed, over a marker in every partition, to word that it is complete.

Rules that hold here:

* Nothing is sent before the decision is committed, and Complete is written when all markers are, not before: else a power loss could leave
  one partition open for ever. What needs no waiting happens in the same turn of the loop.
* A marker is sent once for each partition, unless the broker dies in between: then the coordinator starts over, and a second marker says
  nothing new.
* What refuses for now (a disk, an offsets partition that is still read back) is tried again by a timer. A deleted topic needs no marker,
  and neither does a partition where a newer epoch of the producer has been: nothing of this transaction is open there.
* A transaction whose coordinator has moved is left to the new one.

Source: KAFKA TransactionMarkerChannelManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.shard import Life
from ottla.broker.runtime.coordination.txn_markers import SendMarker
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.core.clock import Clock
    from ottla.broker.core.timers import TimerHandle, Timers
    from ottla.broker.runtime.coordination.shard import Durable
    from ottla.broker.txns.transaction import TopicPartition, Transaction

logger = logging.getLogger(__name__)


class Stops(Protocol):
    """Scripted faults, as far as the coordinator asks them."""

    active: bool

    def stops_at(
        self, step: str, transactional_id: str, go_on: Callable[[], object], topic: str | None = None, partition: int | None = None, /
    ) -> bool:
        """Whether to stop at this step; `go_on` is called when it is released."""
        ...


class Home(Protocol):
    """Where a transaction's states are written: its shard."""

    epoch: int
    life: Life

    def write(self, txn: Transaction, /) -> Durable:
        """The new state. Raises Rejected."""
        ...


@dataclass(slots=True)
class _Work:
    """`left`: partitions that have no marker yet. `waiting`: markers that are not committed yet."""

    home: Home
    txn: Transaction
    left: set[TopicPartition]
    waiting: int = 0
    retry_ms: int = limits.MARKER_RETRY_MS
    timer: TimerHandle | None = None

    @property
    def marker(self) -> TxnMarker:
        """The same for every partition."""
        txn = self.txn
        return TxnMarker(txn.producer_id, txn.producer_epoch, txn.commits, self.home.epoch, txn.version)


class TxnCompletion:
    """All transactions in their second phase. `exists(topic, partition)` tells a partition that is offline from one that was deleted."""

    def __init__(self, send: SendMarker, timers: Timers, clock: Clock, exists: Callable[[TopicPartition], bool], *, faults: Stops) -> None:
        self._send = send
        self._timers = timers
        self._clock = clock
        self._exists = exists
        self._faults = faults
        self._work: dict[str, _Work] = {}

    def __len__(self) -> int:
        return len(self._work)

    def begin(self, home: Home, txn: Transaction, decided: Durable = None) -> None:
        """Carry a prepared transaction through, as soon as its decision cannot be lost."""
        if decided is None:
            self._prepared(home, txn)
            return

        def go_on(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._prepared(home, txn)

        decided.add_done_callback(go_on)

    def stop(self, home: Home | None = None) -> None:
        """Go on with nothing, or with nothing of one home: its next coordinator carries on from the log."""
        for name, work in list(self._work.items()):
            if home is None or work.home is home:
                if work.timer is not None:
                    work.timer.cancel()
                del self._work[name]

    def _prepared(self, home: Home, txn: Transaction) -> None:
        faults = self._faults
        if home.life is Life.RESIGNED:
            return
        if faults.active and faults.stops_at("prepared", txn.transactional_id, partial(self._prepared, home, txn)):
            return
        work = self._work[txn.transactional_id] = _Work(home, txn, set(txn.partitions))
        self._send_all(work)

    def _send_all(self, work: _Work) -> None:
        txn, marker = work.txn, work.marker
        work.timer = None
        for place in sorted(work.left):
            if self._faults.active and self._faults.stops_at("marker", txn.transactional_id, partial(self._retry, work), *place):
                continue
            try:
                durable = self._send(place, marker)
            except Rejected as refusal:
                if self._needs_none(work, place, refusal):
                    work.left.discard(place)
                continue
            work.left.discard(place)
            if durable is not None:
                work.waiting += 1
                durable.add_done_callback(partial(self._sent, work, place))
        self._settle(work)

    def _retry(self, work: _Work) -> None:
        """Go on at once with what a script held back."""
        if self._work.get(work.txn.transactional_id) is work:
            if work.timer is not None:
                work.timer.cancel()
            self._send_all(work)

    def _needs_none(self, work: _Work, place: TopicPartition, refusal: Rejected) -> bool:
        name = work.txn.transactional_id
        if refusal.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            logger.warning("No marker of transaction %r in %s-%d: %s", name, *place, refusal)
            return True
        if not self._exists(place):
            return True
        if work.retry_ms == limits.MARKER_RETRY_MS:
            logger.warning("The marker of transaction %r in %s-%d has to wait: %s", name, *place, refusal)
        return False

    def _sent(self, work: _Work, place: TopicPartition, done: asyncio.Future[None]) -> None:
        work.waiting -= 1
        if done.cancelled() or done.exception() is not None:
            work.left.add(place)
        self._settle(work)

    def _settle(self, work: _Work) -> None:
        if work.waiting or self._work.get(work.txn.transactional_id) is not work:
            return
        if not work.left:
            faults, name = self._faults, work.txn.transactional_id
            if faults.active and faults.stops_at("marked", name, partial(self._settle, work)):
                return
            if self._complete(work):
                return
        work.timer = self._timers.schedule(self._clock.mono_ms() + work.retry_ms, partial(self._send_all, work))
        work.retry_ms = min(2 * work.retry_ms, limits.MARKER_RETRY_MS_MAX)

    def _complete(self, work: _Work) -> bool:
        name = work.txn.transactional_id
        try:
            work.home.write(work.txn.completed(self._clock.now_ms()))
        except Rejected as error:
            logger.warning("Transaction %r cannot be completed yet: %s", name, error)
            return False
        del self._work[name]
        return True

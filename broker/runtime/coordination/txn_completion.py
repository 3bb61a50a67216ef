"""The second phase of a transaction: from a decision that is committed, over a marker in every partition, to word that it is complete.

Rules that hold here:

* Nothing is sent before the decision is committed, and Complete is written when all markers are, not before: else a power loss could leave
  one partition open for ever. What needs no waiting happens in the same turn of the loop.
* A marker is sent once for each partition, unless the broker dies in between: then the coordinator starts over, and a second marker says
  nothing new.
* What refuses for now (a disk, an offsets partition that is still read back, a broker that is away) is tried again by a timer, whatever
  the others wait for. A deleted topic needs no marker.
* A transaction whose coordinator has moved is left to the new one; so is one of which a partition has seen a newer coordinator, or a newer
  epoch of the producer.

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
from ottla.broker.runtime.coordination.shard import Life, failure_of
from ottla.broker.runtime.coordination.txn_markers import SendMarker
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.core.clock import Clock
    from ottla.broker.core.timers import TimerHandle, Timers
    from ottla.broker.runtime.coordination.shard import Durable
    from ottla.broker.txns.transaction import TopicPartition, Transaction

logger = logging.getLogger(__name__)

_SUPERSEDED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_NOTHING_OPEN = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""Of a partition that can hold no transaction (TransactionMarkerRequestCompletionHandler)."""


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
        for work in list(self._work.values()):
            if home is None or work.home is home:
                self._leave(work)

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
                self._refused(work, place, refusal)
                if not self._is_current(work):
                    return
                continue
            work.left.discard(place)
            if durable is not None:
                work.waiting += 1
                durable.add_done_callback(partial(self._sent, work, place))
        self._settle(work)

    def _retry(self, work: _Work) -> None:
        """Go on at once with what a script held back."""
        if self._is_current(work):
            if work.timer is not None:
                work.timer.cancel()
            self._send_all(work)

    def _refused(self, work: _Work, place: TopicPartition, refusal: Rejected) -> None:
        name = work.txn.transactional_id
        if refusal.code in _SUPERSEDED:
            logger.warning("Transaction %r is left to a newer coordinator: %s-%d says %s", name, *place, refusal)
            self._leave(work)
        elif refusal.code in _NOTHING_OPEN or not self._exists(place):
            work.left.discard(place)
        elif work.retry_ms == limits.MARKER_RETRY_MS:
            logger.warning("The marker of transaction %r in %s-%d has to wait: %s", name, *place, refusal)

    def _sent(self, work: _Work, place: TopicPartition, done: asyncio.Future[None]) -> None:
        work.waiting -= 1
        refusal = failure_of(done)
        if not self._is_current(work):
            return
        if refusal is not None:
            work.left.add(place)
            self._refused(work, place, refusal)
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
            work.home.write(work.txn.completed(self._clock.now_ms()))
        except Rejected as error:
            logger.warning("Transaction %r cannot be completed yet: %s", name, error)
            return False
        del self._work[name]
        return True

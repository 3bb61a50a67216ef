"""Carries decided transactions through: a marker into every partition, and then word that it is done.

Rules that hold here:

* A marker is written once for each partition, unless the broker dies in between: then the coordinator starts over, and a second marker says
  nothing new.
* What refuses for now (a disk, an offsets partition that is still read back) is tried again by a timer. A deleted topic needs no marker,
  and neither does a partition where a newer epoch of the producer has been: nothing of this transaction is open there.
* There is one coordinator, so a greater coordinator epoch that a partition has seen (a tool's, another cluster's) is no newer one's: the
  marker takes it over. Refused, it would leave open what the producer was told is committed.
* The transaction is complete when all its markers are durable, not before: else a power loss could leave one partition open for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker.core import limits
from broker.core.rejected import Rejected
from broker.replication.waits import Condition
from broker.topics.topic_names import CONSUMER_OFFSETS
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from broker.core.clock import Clock
    from broker.core.timers import TimerHandle, Timers
    from broker.runtime.group_service import GroupService
    from broker.runtime.partitions import Partitions
    from broker.runtime.shard import Durable
    from broker.txns.transaction import TopicPartition, Transaction

logger = logging.getLogger(__name__)


class Stops(Protocol):
    """Scripted faults, as far as the coordinator asks them."""

    active: bool

    def stops_at(
        self, step: str, transactional_id: str, go_on: Callable[[], object], topic: str | None = None, partition: int | None = None, /
    ) -> bool:
        """Whether to stop at this step; `go_on` is called when it is released."""
        ...


@dataclass(slots=True)
class _Work:
    """`left`: partitions that have no marker yet. `waiting`: markers that are not durable yet."""

    txn: Transaction
    coordinator_epoch: int
    done: Callable[[], bool]
    left: set[TopicPartition]
    waiting: int = 0
    retry_ms: int = limits.MARKER_RETRY_MS
    timer: TimerHandle | None = None


class TxnMarkers:
    """`exists(topic, partition)` tells a partition that is offline from one that was deleted."""

    def __init__(
        self,
        partitions: Partitions,
        groups: GroupService,
        timers: Timers,
        clock: Clock,
        exists: Callable[[TopicPartition], bool],
        *,
        faults: Stops,
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._timers = timers
        self._clock = clock
        self._exists = exists
        self._faults = faults
        self._work: dict[str, _Work] = {}

    def __len__(self) -> int:
        return len(self._work)

    def stop(self) -> None:
        """Write no more: the next start carries on from the log."""
        for work in self._work.values():
            if work.timer is not None:
                work.timer.cancel()
        self._work.clear()

    def carry_through(self, txn: Transaction, coordinator_epoch: int, done: Callable[[], bool]) -> None:
        """Write the markers of a prepared transaction. `done` is called when all are durable, again after a while if it says False."""
        work = self._work[txn.transactional_id] = _Work(txn, coordinator_epoch, done, set(txn.partitions))
        self._go_on(work)

    def write(
        self, place: TopicPartition, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int, transaction_version: int
    ) -> Durable:
        """One marker, now. Raises Rejected; then nothing was written."""
        topic, index = place
        if topic == CONSUMER_OFFSETS:
            return self._groups.write_marker(
                index, producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch, transaction_version=transaction_version
            )
        partition = self._partitions.get(topic, index)
        info = partition.append_marker(producer_id, epoch, commit, coordinator_epoch, transaction_version)
        return partition.when(Condition.COMMITTED, info)

    def _go_on(self, work: _Work) -> None:
        txn = work.txn
        work.timer = None
        for place in sorted(work.left):
            if self._faults.active and self._faults.stops_at("marker", txn.transactional_id, partial(self._retry, work), *place):
                continue
            try:
                durable = self.write(
                    place,
                    txn.producer_id,
                    txn.producer_epoch,
                    commit=txn.commits,
                    coordinator_epoch=max(work.coordinator_epoch, self._coordinator_epoch_seen(place, txn.producer_id)),
                    transaction_version=txn.version,
                )
            except Rejected as refusal:
                if self._needs_none(work, place, refusal):
                    work.left.discard(place)
                continue
            work.left.discard(place)
            if durable is not None:
                work.waiting += 1
                durable.add_done_callback(partial(self._durable, work, place))
        self._settle(work)

    def _coordinator_epoch_seen(self, place: TopicPartition, producer_id: int) -> int:
        """Raises Rejected where the partition is not served."""
        return self._partitions.get(*place).coordinator_epoch_seen(producer_id)

    def _retry(self, work: _Work) -> None:
        """Go on at once with what a script held back."""
        if self._work.get(work.txn.transactional_id) is work:
            if work.timer is not None:
                work.timer.cancel()
            self._go_on(work)

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

    def _durable(self, work: _Work, place: TopicPartition, done: asyncio.Future[None]) -> None:
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
            del self._work[work.txn.transactional_id]
            if work.done():
                return
            self._work[work.txn.transactional_id] = work
        work.timer = self._timers.schedule(self._clock.mono_ms() + work.retry_ms, partial(self._go_on, work))
        work.retry_ms = min(2 * work.retry_ms, limits.MARKER_RETRY_MS_MAX)

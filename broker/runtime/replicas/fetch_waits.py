"""Long polls: a Fetch that has not enough bytes yet waits here until appends bring them, or its time is up. Nothing polls.

Appended bytes are an estimate (not all need be readable for the isolation asked); whoever waited reads again, and waits again if need be.
Waking is a future's result, so all appends of one turn of the loop are seen by one read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.core.timers import TimerHandle, Timers
from ottla.broker.runtime.replicas.partition import Partition

if TYPE_CHECKING:
    Waiting = asyncio.Future[Collection[Partition] | None]


class FetchWaits:
    """All parked fetches."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiters: dict[_Waiter, None] = {}
        """In the order in which they came."""

    @property
    def parked(self) -> int:
        """Fetches that wait."""
        return len(self._waiters)

    def release_all(self) -> None:
        """The broker stops: whoever waits answers with what there is."""
        for waiter in list(self._waiters):
            waiter.give_up()

    def wait(self, partitions: Collection[Partition], missing_bytes: int, deadline_mono_ms: int, *, to_the_end: bool = False) -> Waiting:
        """The partitions that changed, once `missing_bytes` came to be readable in `partitions` together (or one of them changed
        otherwise); None at the deadline.

        `to_the_end`: a follower waits, who may read what is not committed. Cancelling the future takes the wait back.
        """
        future: Waiting = asyncio.get_running_loop().create_future()
        waiter = _Waiter(future, partitions, missing_bytes)
        timer = self._timers.schedule(deadline_mono_ms, waiter.give_up)
        for partition in partitions:
            (partition.end_watchers if to_the_end else partition.watchers)[waiter] = partial(waiter.appended, partition)
        self._waiters[waiter] = None
        future.add_done_callback(partial(self._unpark, waiter, timer))
        return future

    def _unpark(self, waiter: _Waiter, timer: TimerHandle, _: object) -> None:
        timer.cancel()
        waiter.detach()
        self._waiters.pop(waiter, None)


class _Waiter:
    """It listens until the loop has told who waits, so that all that changes in one turn is among what `changed`."""

    __slots__ = ("_changed", "_future", "_missing", "_partitions")

    def __init__(self, future: Waiting, partitions: Collection[Partition], missing_bytes: int) -> None:
        self._future = future
        self._missing = missing_bytes
        self._partitions = partitions
        self._changed: set[Partition] = set()

    def appended(self, partition: Partition, size: int) -> None:
        self._changed.add(partition)
        self._missing -= size
        if (self._missing <= 0 or size == 0) and not self._future.done():
            self._future.set_result(self._changed)

    def give_up(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def detach(self) -> None:
        for partition in self._partitions:
            partition.watchers.pop(self, None)
            partition.end_watchers.pop(self, None)

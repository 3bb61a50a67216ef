"""Long polls: a Fetch that has not enough bytes yet waits here until appends bring them, or its time is up. Nothing polls.

A fetch waits with its session (fetch_sessions), whose targets watch the partitions that were read already: to wait costs nothing for each
partition. Appended bytes are an estimate (not all need be readable for the isolation asked); a woken fetch reads again, and waits again if
need be. Waking is a future's result, so all appends of one turn of the loop are seen by one read.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.core.timers import TimerHandle, Timers
from ottla.broker.runtime.replicas.fetch_sessions import FetchSession
from ottla.broker.runtime.replicas.partition import Partition

if TYPE_CHECKING:
    Waiting = asyncio.Future[bool]


class FetchWaits:
    """All parked fetches."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiters: dict[ParkedFetch, None] = {}
        """In the order in which they came."""

    @property
    def parked(self) -> int:
        """Fetches that wait."""
        return len(self._waiters)

    def release_all(self) -> None:
        """The broker stops: every fetch that waits answers with what there is."""
        for waiter in list(self._waiters):
            waiter.give_up()

    def wait(self, session: FetchSession, missing_bytes: int, deadline_mono_ms: int) -> Waiting:
        """True once `missing_bytes` came to be readable in the partitions that the session's targets watch (or one of them changed
        otherwise); False at the deadline, or when another request uses the session.

        Cancelling the future takes the wait back.
        """
        future: Waiting = asyncio.get_running_loop().create_future()
        waiter = ParkedFetch(future, session, missing_bytes)
        timer = self._timers.schedule(deadline_mono_ms, waiter.give_up)
        self._waiters[waiter] = None
        session.waiter = waiter
        future.add_done_callback(partial(self._unpark, waiter, timer))
        return future

    def _unpark(self, waiter: ParkedFetch, timer: TimerHandle, _: object) -> None:
        timer.cancel()
        waiter.detach()
        self._waiters.pop(waiter, None)


class ParkedFetch:
    """One parked fetch. Until the loop has woken it, each change counts."""

    __slots__ = ("_future", "_joined", "_missing", "_session", "_to_the_end")

    def __init__(self, future: Waiting, session: FetchSession, missing_bytes: int) -> None:
        self._future = future
        self._missing = missing_bytes
        self._session = session
        self._to_the_end = session.follower >= 0
        self._joined: list[Partition] = []

    def join(self, partition: Partition) -> None:
        """A target's watch has ended with its first change: count the later ones here."""
        self._joined.append(partition)
        (partition.end_watchers if self._to_the_end else partition.watchers)[self] = self.appended

    def appended(self, size: int) -> None:
        """So many bytes became readable; 0 and less as in `partition.Woken`."""
        if size < 0:
            return
        self._missing -= size
        if (self._missing <= 0 or size == 0) and not self._future.done():
            self._future.set_result(True)

    def give_up(self) -> None:
        """Answer with what there is."""
        if not self._future.done():
            self._future.set_result(False)

    def detach(self) -> None:
        """Count nothing more."""
        if self._session.waiter is self:
            self._session.waiter = None
        for partition in self._joined:
            partition.watchers.pop(self, None)
            partition.end_watchers.pop(self, None)

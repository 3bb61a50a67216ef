"""The purgatory of long-polling Fetch requests: each waits until appends provide enough bytes or its deadline passes.

A waiting fetch need not register with each of its partitions: its fetch session (fetch_sessions) already watches them for changes. No fetch
polls. The count of appended bytes is an estimate, because the isolation level may hide some of them. A resumed fetch reads again and, if
necessary, waits again. It resumes through a future, so that one read covers all appends of an event loop turn.
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


class FetchPurgatory:
    """The Fetch requests of the broker that wait for data (the purgatory of Kafka's DelayedFetch)."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiters: dict[PendingFetch, None] = {}
        """The waiting fetches, in order of arrival."""

    @property
    def waiting(self) -> int:
        """The number of Fetch requests that wait for data."""
        return len(self._waiters)

    def release_all(self) -> None:
        """Complete every waiting fetch with the data that is available, because the broker is shutting down."""
        for waiter in list(self._waiters):
            waiter.force_complete()

    def wait(self, session: FetchSession, missing_bytes: int, deadline_mono_ms: int) -> Waiting:
        """Return a future that completes when the fetch must respond or read again. Cancelling the future ends the wait.

        The result is True (read again) when `missing_bytes` more bytes are readable in the session's partitions, or when a partition
        changes in another way (for example, has another leader). The result is False (respond) at `deadline_mono_ms` (monotonic time), or
        when another request uses the session.
        """
        future: Waiting = asyncio.get_running_loop().create_future()
        waiter = PendingFetch(future, session, missing_bytes)
        timer = self._timers.schedule(deadline_mono_ms, waiter.force_complete)
        self._waiters[waiter] = None
        session.waiter = waiter
        future.add_done_callback(partial(self._unpark, waiter, timer))
        return future

    def _unpark(self, waiter: PendingFetch, timer: TimerHandle, _: object) -> None:
        timer.cancel()
        waiter.detach()
        self._waiters.pop(waiter, None)


class PendingFetch:
    """One Fetch request that waits for data. It counts the bytes that become readable until the event loop resumes it."""

    __slots__ = ("_future", "_joined", "_missing", "_reads_to_log_end", "_session")

    def __init__(self, future: Waiting, session: FetchSession, missing_bytes: int) -> None:
        self._future = future
        self._missing = missing_bytes
        self._session = session
        self._reads_to_log_end = session.follower >= 0
        self._joined: list[Partition] = []

    def join(self, partition: Partition) -> None:
        """Watch the partition until the end of this wait. Call this after the partition's first change: until then the fetch session
        watches the partition for this fetch."""
        self._joined.append(partition)
        (partition.log_end_watchers if self._reads_to_log_end else partition.watchers)[self] = self.appended

    def appended(self, size: int) -> None:
        """Count `size` more readable bytes, and complete the wait when there are enough. A `size` of 0 completes it at once, because the
        fetch must read again; a `size` of -1 (`partition.READ_LATER`) is ignored.
        """
        if size < 0:
            return
        self._missing -= size
        if (self._missing <= 0 or size == 0) and not self._future.done():
            self._future.set_result(True)

    def force_complete(self) -> None:
        """End the wait before there are enough bytes. The fetch then responds with the data that is available."""
        if not self._future.done():
            self._future.set_result(False)

    def detach(self) -> None:
        """Stop counting readable bytes for this fetch, and remove its watchers from the partitions."""
        if self._session.waiter is self:
            self._session.waiter = None
        for partition in self._joined:
            partition.watchers.pop(self, None)
            partition.log_end_watchers.pop(self, None)

"""A queue of timers, which gets the time as an argument (`ottla.broker.runtime.upkeep.timer_driver` runs it on the event loop).

Rules:
* A callback runs once, never before its deadline. Earlier deadlines run first; equal deadlines run in the order of scheduling.
* A callback that raises is retried every TIMER_RETRY_MS until it succeeds, because a periodic task schedules itself at its end and would
  otherwise stop after one bug. The first failure is logged with its traceback.
* Cancelling is cheap: cancelled entries are removed when they outnumber the live ones, so the heap stays within twice its live size.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable

from ottla.broker.core import limits
from ottla.broker.core.failure import failure_of

logger = logging.getLogger(__name__)

Callback = Callable[[], None]

_SWEEP_AT_LEAST = 64


class TimerHandle:
    """One scheduled callback, with its deadline in monotonic ms. `cancel` is idempotent, and has no effect after the callback ran."""

    __slots__ = ("_callback", "_timers", "deadline_ms", "failed")

    def __init__(self, deadline_ms: int, callback: Callback, timers: Timers) -> None:
        self.deadline_ms = deadline_ms
        self._callback: Callback | None = callback
        self._timers = timers
        self.failed = False
        """Whether the callback's last run raised an exception; then the scheduled run is a retry."""

    @property
    def active(self) -> bool:
        """Whether the callback is still scheduled: it has neither run nor been cancelled."""
        return self._callback is not None

    def cancel(self) -> None:
        """Cancel the callback, if it has not run yet."""
        if self._callback is not None:
            self._callback = None
            self._timers._cancelled()

    def _take(self) -> Callback | None:
        callback, self._callback = self._callback, None
        return callback


class Timers:
    """A queue of timers. The owner calls `run_due` at the time that `next_deadline` returns."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerHandle]] = []
        self._count = 0
        self._dead = 0
        self.on_earlier: Callback | None = None
        """A function that is called when `schedule` has made `next_deadline` earlier, so that a driver that sleeps until the deadline can
        wake up in time.
        """
        self.on_error: Callable[[Exception], object] | None = None
        """A function that is called with each exception that a callback raises. Some exceptions, such as that of a failed fsync, concern
        the whole process and not only the callback."""

    def __len__(self) -> int:
        return len(self._heap) - self._dead

    @property
    def held(self) -> int:
        """The number of entries in the heap, including cancelled ones that were not removed yet."""
        return len(self._heap)

    def schedule(self, deadline_mono_ms: int, callback: Callback) -> TimerHandle:
        """Run `callback` once when monotonic time has reached `deadline_mono_ms`. Return a handle that can cancel it."""
        handle = TimerHandle(deadline_mono_ms, callback, self)
        earlier = not self._heap or deadline_mono_ms < self._heap[0][0]
        self._push(handle)
        if earlier and self.on_earlier is not None:
            self.on_earlier()
        return handle

    def next_deadline(self) -> int | None:
        """Return the earliest deadline of a timer that was not cancelled, in monotonic milliseconds; None if there is no timer."""
        heap = self._heap
        while heap and not heap[0][2].active:
            heapq.heappop(heap)
            self._dead -= 1
        return heap[0][0] if heap else None

    def run_due(self, now_mono_ms: int, max_callbacks: int | None = None) -> int:
        """Run the timers that are due at `now_mono_ms`, at most `max_callbacks` of them (None: all). Return how many ran."""
        ran = 0
        while max_callbacks is None or ran < max_callbacks:
            deadline = self.next_deadline()
            if deadline is None or deadline > now_mono_ms:
                break
            handle = heapq.heappop(self._heap)[2]
            callback = handle._take()
            if callback is not None:
                ran += 1
                error = failure_of(callback)
                if error is not None:
                    self._run_again(handle, callback, now_mono_ms, error)
        return ran

    def _push(self, handle: TimerHandle) -> None:
        self._count += 1
        heapq.heappush(self._heap, (handle.deadline_ms, self._count, handle))

    def _run_again(self, handle: TimerHandle, callback: Callback, now_mono_ms: int, error: Exception) -> None:
        if not handle.failed:
            logger.error("Bug in background work, which will be retried every %d ms", limits.TIMER_RETRY_MS, exc_info=error)
        if self.on_error is not None:
            self.on_error(error)
        handle.failed = True
        handle.deadline_ms = now_mono_ms + limits.TIMER_RETRY_MS
        handle._callback = callback
        self._push(handle)

    def _cancelled(self) -> None:
        self._dead += 1
        if self._dead > _SWEEP_AT_LEAST and self._dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].active]
            heapq.heapify(self._heap)
            self._dead = 0

"""Runs the broker's timer queue (`Timers`) on the event loop. At any time one wake-up of the loop is scheduled: at the earliest deadline.

Invariant: code that waits for time uses the broker's clock through this module, never the loop's (`asyncio.sleep`, `asyncio.timeout`). A
test that moves the clock then moves every timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock, MovableClock
from ottla.broker.core.timers import Timers


class TimerDriver:
    """Runs the due callbacks of a `Timers` queue on the event loop, a bounded number per turn, so that sockets are served in between."""

    def __init__(self, timers: Timers, clock: Clock) -> None:
        self._timers = timers
        self._clock = clock
        self._handle: asyncio.Handle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start to run timers. Call this on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._timers.on_earlier = self._arm
        if isinstance(self._clock, MovableClock):
            self._clock.add_listener(self._arm)
        self._arm()

    def stop(self) -> None:
        """Stop running timers: no further callback of the queue is called."""
        self._timers.on_earlier = None
        if isinstance(self._clock, MovableClock):
            self._clock.remove_listener(self._arm)
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        assert self._loop is not None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        deadline = self._timers.next_deadline()
        if deadline is None:
            return
        delay_ms = deadline - self._clock.mono_ms()
        if delay_ms <= 0:
            self._handle = self._loop.call_soon(self._turn)
        elif self._clock.runs:
            self._handle = self._loop.call_later(delay_ms / 1000, self._turn)
        # otherwise the clock stands still, and calls _arm when it is moved

    def _turn(self) -> None:
        self._handle = None
        try:
            self._timers.run_due(self._clock.mono_ms(), limits.TIMER_CALLBACKS_PER_TURN)
        finally:
            if self._timers.on_earlier is not None:
                self._arm()


class Lateness:
    """Measures how late the event loop runs a callback that is due `ms` milliseconds from now.

    The lateness is measured by the broker's clock and by the loop's clock, and the lesser value counts. So a test that moves the broker's
    clock forward makes no callback late.
    """

    __slots__ = ("_clock", "_due_ms", "_due_s", "_loop")

    def __init__(self, clock: Clock, ms: int) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._due_ms = clock.mono_ms() + ms
        self._due_s = self._loop.time() + ms / 1_000

    def ms(self) -> int:
        """Return by how many milliseconds the callback is late because the event loop was busy; 0 if it is on time."""
        return max(0, min(self._clock.mono_ms() - self._due_ms, round((self._loop.time() - self._due_s) * 1_000)))


class Deadline:
    """Calls `callback` after `ms` milliseconds, but not before the event loop has read the data that arrived in that time.

    A loop that was busy runs overdue timers before it reads its sockets, so a response that arrived in time would count as missing. A
    deadline that is late by more than LATE_TURN_MS therefore waits again for as long as it was late, at most `ms`, and checks once more.
    """

    __slots__ = ("_callback", "_clock", "_lateness", "_ms", "_timer", "_timers")

    def __init__(self, timers: Timers, clock: Clock, ms: int, callback: Callable[[], object]) -> None:
        self._timers = timers
        self._clock = clock
        self._ms = ms
        self._callback = callback
        self._wait(ms)

    def cancel(self) -> None:
        """Cancel the deadline, so that its callback is not called."""
        self._timer.cancel()

    def _wait(self, ms: int) -> None:
        self._lateness = Lateness(self._clock, ms)
        self._timer = self._timers.schedule(self._clock.mono_ms() + ms, self._due)

    def _due(self) -> None:
        late_ms = self._lateness.ms()
        if late_ms > limits.LATE_TURN_MS:
            self._wait(min(late_ms, self._ms))
        else:
            self._callback()


def pause(timers: Timers, clock: Clock, ms: int) -> asyncio.Future[None]:
    """Return a future that is done when `ms` milliseconds have passed on the broker's clock."""
    passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = timers.schedule(clock.mono_ms() + ms, lambda: None if passed.done() else passed.set_result(None))
    passed.add_done_callback(lambda _: timer.cancel())
    return passed


async def wait_at_most(timers: Timers, clock: Clock, ms: int, futures: Collection[asyncio.Future[Any]]) -> list[asyncio.Future[Any]]:
    """Wait until all `futures` are done, or until `ms` milliseconds have passed on the broker's clock. Return the futures that are not
    done."""
    waiting = [future for future in futures if not future.done()]
    if not waiting:
        return []
    left = len(waiting)
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    def one_done(_: asyncio.Future[Any]) -> None:
        nonlocal left
        left -= 1
        if not left:
            end()

    for future in waiting:
        future.add_done_callback(one_done)
    timer = timers.schedule(clock.mono_ms() + ms, end)
    try:
        await over
    finally:
        timer.cancel()
        for future in waiting:
            future.remove_done_callback(one_done)
    return [future for future in waiting if not future.done()]

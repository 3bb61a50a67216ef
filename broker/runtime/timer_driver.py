"""Drives `Timers` from the event loop: one `call_later` at a time, for the earliest deadline."""

from __future__ import annotations

import asyncio

from broker.core import limits
from broker.core.clock import Clock, MovableClock
from broker.core.timers import Timers


class TimerDriver:
    """Runs due timers on the loop, a bounded number a turn, so that sockets are served between them."""

    def __init__(self, timers: Timers, clock: Clock) -> None:
        self._timers = timers
        self._clock = clock
        self._handle: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin to run timers; call it on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._timers.on_earlier = self._arm
        if isinstance(self._clock, MovableClock):
            self._clock.on_moved = self._arm
        self._arm()

    def stop(self) -> None:
        """Run no further timer."""
        self._timers.on_earlier = None
        if isinstance(self._clock, MovableClock):
            self._clock.on_moved = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        assert self._loop is not None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        deadline = self._timers.next_deadline()
        if deadline is not None:
            delay_ms = max(0, deadline - self._clock.mono_ms())
            self._handle = self._loop.call_later(delay_ms / 1000, self._turn)

    def _turn(self) -> None:
        self._handle = None
        try:
            self._timers.run_due(self._clock.mono_ms(), limits.TIMER_CALLBACKS_PER_TURN)
        finally:
            if self._timers.on_earlier is not None:
                self._arm()


def pause(timers: Timers, clock: Clock, ms: int) -> asyncio.Future[None]:
    """Done when `ms` have passed on the broker's clock."""
    passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timers.schedule(clock.mono_ms() + ms, lambda: None if passed.done() else passed.set_result(None))
    return passed

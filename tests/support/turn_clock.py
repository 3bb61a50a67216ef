"""A clock for a broker on which all work takes very long, so that work that yields to other connections does so after every step."""

from __future__ import annotations

import asyncio

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock


class TurnClock(Clock):
    """The machine's clock, but after `start` each reading of `spent_ns` is a time slice (SLICE_MS) later than the one before. `turns`
    counts the turns of the event loop in which it was read since.
    """

    def __init__(self) -> None:
        self.turns = 0
        self._slices = 0
        self._is_started = self._is_counted = False

    def start(self) -> None:
        self._is_started = True

    def spent_ns(self) -> int:
        if not self._is_started:
            return super().spent_ns()
        self._slices += 1
        if not self._is_counted:
            self._is_counted = True
            self.turns += 1
            asyncio.get_running_loop().call_soon(self._next_turn)
        return super().spent_ns() + self._slices * limits.SLICE_NS

    def _next_turn(self) -> None:
        self._is_counted = False

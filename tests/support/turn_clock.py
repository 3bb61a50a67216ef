"""A clock for a broker on which all work takes very long, so that work that yields to other connections does so after a few steps."""

from __future__ import annotations

import asyncio
import threading

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock

GATE_TIMEOUT_S = 20


class TurnClock(Clock):
    """The machine's clock, but from `start` on, only readings move `spent_ns`: `readings_per_slice` readings make a time slice (SLICE_MS).
    `turns` counts the turns of the event loop in which it was read since. If a `gate` is given to `start`, the first reading waits for it.
    """

    def __init__(self, readings_per_slice: int = 1) -> None:
        self.turns = 0
        self._step_ns = limits.SLICE_NS // readings_per_slice
        self._now_ns = 0
        self._gate: threading.Event | None = None
        self._is_started = self._is_counted = False

    def start(self, gate: threading.Event | None = None) -> None:
        self._now_ns, self._gate = super().spent_ns(), gate
        self._is_started = True

    def spent_ns(self) -> int:
        if not self._is_started:
            return super().spent_ns()
        if self._gate is not None:
            self._gate.wait(GATE_TIMEOUT_S)
            self._gate = None
        self._now_ns += self._step_ns
        if not self._is_counted:
            self._is_counted = True
            self.turns += 1
            asyncio.get_running_loop().call_soon(self._next_turn)
        return self._now_ns

    def _next_turn(self) -> None:
        self._is_counted = False

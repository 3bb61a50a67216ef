"""The clocks of simulated nodes, derived from the loop's time: each can be set wrong, and run a little fast or slow."""

from __future__ import annotations

from typing import Final

from ottla.broker.core.clock import Clock
from ottla.broker.sim.loop import SimLoop

BEGIN_MS: Final = 1_700_000_000_000
"""The wall time at which a simulation begins."""


class NodeClock(Clock):
    """A node's clock. `skew_ms` is how far its wall time is ahead, and may change; its monotonic time is `drift` parts per million fast."""

    __slots__ = ("_loop", "_millionths", "skew_ms")

    def __init__(self, loop: SimLoop, skew_ms: int = 0, drift: int = 0) -> None:
        self._loop = loop
        self._millionths = 1_000_000 + drift
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return BEGIN_MS + self.skew_ms + self._loop.now_us // 1000

    def mono_ms(self) -> int:
        return self._loop.now_us * self._millionths // 1_000_000_000

    def spent_ns(self) -> int:
        """Return the simulated time in ns in place of the processor time. With the real time, turns of the event loop would end at
        different points in each run of a seed."""
        return self._loop.now_us * 1000

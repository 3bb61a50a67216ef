"""The clocks of simulated nodes. They are derived from the event loop's virtual time; each can be wrong, and run a little fast or slow."""

from __future__ import annotations

from typing import Final

from ottla.broker.core.clock import Clock
from ottla.broker.sim.loop import SimLoop

BEGIN_MS: Final = 1_700_000_000_000
"""The wall-clock time at which a simulation begins, in ms since 1970-01-01 UTC."""


class NodeClock(Clock):
    """A simulated node's clock. `skew_ms` says how many ms its wall-clock time is ahead of the simulation's; it may change during a run.
    `drift` says by how many parts per million its monotonic time is too fast."""

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
        """Return the simulated time in ns instead of the processor time that was spent. With real processor time, turns of the event loop
        would end at different points in each run of the same seed."""
        return self._loop.now_us * 1000

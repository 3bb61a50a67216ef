"""A clock that moves only when a test says so."""

from __future__ import annotations

from ottla.broker.core.clock import Clock

START_MS = 1_700_000_000_000


class ManualClock(Clock):
    """Both clocks advance together."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now = now_ms
        self.mono = 0

    def now_ms(self) -> int:
        return self.now

    def mono_ms(self) -> int:
        return self.mono

    def advance(self, ms: int) -> None:
        self.now += ms
        self.mono += ms

"""The only module that reads a clock; everything else is told the time.

Two clocks, never mixed: wall time (`now_ms`, milliseconds since the epoch) goes into records, files and retention, and may jump;
monotonic time (`mono_ms`) drives timeouts and timers, and only ever grows.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns


class Clock:
    """The machine's clocks. Tests pass a subclass that moves by hand."""

    __slots__ = ()
    runs = True
    """Whether time passes by itself."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970-01-01 UTC."""
        return time_ns() // 1_000_000

    def mono_ms(self) -> int:
        """Monotonic time in milliseconds from an arbitrary start."""
        return monotonic_ns() // 1_000_000

    def spent_ns(self) -> int:
        """Nanoseconds from an arbitrary start, for the time that work takes; they are never put forward."""
        return monotonic_ns()


AHEAD_MS_MAX = 1000 * 365 * 86_400_000
"""A movable clock is at most a thousand years ahead: far more than any timeout, and any library can still write such a date."""


class MovableClock(Clock):
    """The machine's clocks, put forward by hand: what was to happen in an hour happens now."""

    __slots__ = ("_ahead_ms", "_listeners")

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._listeners: dict[Callable[[], object], None] = {}

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms

    def mono_ms(self) -> int:
        return super().mono_ms() + self._ahead_ms

    @property
    def ahead_ms(self) -> int:
        """How far it was put forward in all."""
        return self._ahead_ms

    def advance(self, ms: int) -> None:
        """Put both clocks forward. Raises ValueError for a step back, because monotonic time only grows, and beyond AHEAD_MS_MAX."""
        if ms < 0:
            raise ValueError(f"a clock goes forward only, not by {ms} ms")
        if self._ahead_ms + ms > AHEAD_MS_MAX:
            raise ValueError(f"a clock goes forward by a thousand years at most, not by {ms} ms")
        self._ahead_ms += ms
        for listener in list(self._listeners):
            listener()

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call `listener` after each move, so that what has become due is done. Listeners are called in the order in which they came."""
        self._listeners[listener] = None

    def remove_listener(self, listener: Callable[[], object]) -> None:
        """Call it no more; one that is not there is fine."""
        self._listeners.pop(listener, None)


class VirtualClock(MovableClock):
    """A clock that reads no machine's: its time passes only when it is put forward. A simulation owns one for each node, or one for all."""

    __slots__ = ("_start_ms",)
    runs = False

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        super().__init__()
        self._start_ms = now_ms

    def now_ms(self) -> int:
        return self._start_ms + self._ahead_ms

    def mono_ms(self) -> int:
        return self._ahead_ms

    def spent_ns(self) -> int:
        return 0

"""The broker's clocks. No other module reads the machine's time.

There are two times, which must never be mixed:
* Wall time (`now_ms`, milliseconds since the epoch) is written into records and files and decides about retention. It may jump in both
  directions.
* Monotonic time (`mono_ms`, milliseconds) drives timeouts and timers. It never goes back.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns


class Clock:
    """The machine's wall clock and monotonic clock. Tests pass a subclass that is advanced explicitly."""

    __slots__ = ()
    runs = True
    """Whether the clock's time passes by itself. If False, time passes only when a test or simulation advances the clock."""

    def now_ms(self) -> int:
        """Return wall time in milliseconds since 1970-01-01 UTC."""
        return time_ns() // 1_000_000

    def mono_ms(self) -> int:
        """Return monotonic time in milliseconds since an arbitrary start."""
        return monotonic_ns() // 1_000_000

    def spent_ns(self) -> int:
        """Return nanoseconds since an arbitrary start, to measure how long work takes. `MovableClock.advance` does not change it."""
        return monotonic_ns()


AHEAD_MS_MAX = 1000 * 365 * 86_400_000
"""The most milliseconds that a `MovableClock` can be ahead of the machine's clock: a thousand years. No timeout is as long, and date
libraries can still format such a time."""


class MovableClock(Clock):
    """The machine's clocks plus an offset that the caller advances, so that a test need not wait for a timeout."""

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
        """The sum of all advances of this clock by `advance`, in milliseconds."""
        return self._ahead_ms

    def advance(self, ms: int) -> None:
        """Advance both clocks by `ms`. Raises ValueError if `ms` is negative or if the total would exceed AHEAD_MS_MAX."""
        if ms < 0:
            raise ValueError(f"a clock can only be advanced, not by {ms} ms")
        if self._ahead_ms + ms > AHEAD_MS_MAX:
            raise ValueError(f"a clock can be at most a thousand years ahead; {ms} ms more would exceed that")
        self._ahead_ms += ms
        for listener in list(self._listeners):
            listener()

    def rewind_to(self, now_ms: int) -> None:
        """Set the wall time to `now_ms`, and move the monotonic time by the same difference, possibly backwards. Call this only while no
        timer or broker uses the clock.
        """
        self._ahead_ms += now_ms - self.now_ms()

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call `listener` after each advance, so that timers that became due run at once. Listeners are called in the order of
        registration.
        """
        self._listeners[listener] = None

    def remove_listener(self, listener: Callable[[], object]) -> None:
        """Unregister `listener`, if it is registered."""
        self._listeners.pop(listener, None)


class VirtualClock(MovableClock):
    """A clock that does not read the machine's time: its time passes only by `advance`. A simulation has one for each node, or
    one for all.
    """

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

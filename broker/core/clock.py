"""The only module that reads a clock; everything else is told the time.

Two clocks, never mixed: wall time (`now_ms`, milliseconds since the epoch) goes into records, files and retention, and may jump;
monotonic time (`mono_ms`) drives timeouts and timers, and only ever grows.
"""

from __future__ import annotations

from time import monotonic_ns, time_ns


class Clock:
    """The machine's clocks. Tests pass a subclass that moves by hand."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970-01-01 UTC."""
        return time_ns() // 1_000_000

    def mono_ms(self) -> int:
        """Monotonic time in milliseconds from an arbitrary start."""
        return monotonic_ns() // 1_000_000

"""A limit on bytes per second: after a large fetch the reader waits before the next one. Clock and sleep are parameters."""

from __future__ import annotations

import time
from collections.abc import Callable


class Throttle:
    """A limit for the rate at which logs are read. The average rate stays at `bytes_per_second` (0: no limit). A single fetch may exceed
    the limit, and the next one then waits."""

    def __init__(
        self, bytes_per_second: int, *, now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._rate = bytes_per_second
        self._now = now
        self._sleep = sleep
        self._free_at = 0.0

    def wait(self) -> None:
        """Wait until the bytes received so far do not exceed the rate limit."""
        if self._rate and (left := self._free_at - self._now()) > 0:
            self._sleep(left)

    def took(self, count: int) -> None:
        """Count `count` received bytes towards the rate limit."""
        if self._rate:
            self._free_at = max(self._free_at, self._now()) + count / self._rate

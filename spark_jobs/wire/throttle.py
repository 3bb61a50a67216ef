"""A limit on bytes a second: who has taken much waits before taking more. Clock and sleep are arguments."""

from __future__ import annotations

import time
from collections.abc import Callable


class Throttle:
    """`bytes_per_second` 0: no limit. On the long average the limit holds exactly; at one time at most one fetch is ahead of it."""

    def __init__(
        self, bytes_per_second: int, *, now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._rate = bytes_per_second
        self._now = now
        self._sleep = sleep
        self._free_at = 0.0

    def wait(self) -> None:
        """Until what was taken before is paid for."""
        if self._rate and (left := self._free_at - self._now()) > 0:
            self._sleep(left)

    def took(self, count: int) -> None:
        """So many bytes have come."""
        if self._rate:
            self._free_at = max(self._free_at, self._now()) + count / self._rate

"""Runs background jobs in slices on the event loop.

Invariants:
- A job is an iterator that does a little work per `next`. A slice ends after HOUSEKEEPING_SLICE_MS, and the loop serves sockets before
  the next one.
- A job that fails is logged at its first failure and tried again at its next time. Background work never stops the broker, except for a
  failed fsync.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.storage.errors import FsyncFailed

logger = logging.getLogger(__name__)

Job = Callable[[], Iterable[object] | None]
"""Does its work at once (returns None), or a little per yielded item. If an item is a future, the job goes on when it is done, and
must retrieve the result itself."""


class Housekeeping:
    """Repeats jobs. `on_failure` is called with a failed fsync, which is fatal."""

    def __init__(self, timers: Timers, clock: Clock, on_failure: Callable[[BaseException], None]) -> None:
        self._timers = timers
        self._clock = clock
        self._on_failure = on_failure
        self._stopped = False
        self._failing: set[str] = set()

    def every(self, interval_ms: int | Callable[[], int], job: Job, *, first_ms: int | None = None, name: str) -> None:
        """Run `job` after `first_ms` (default: the interval), and again whenever `interval_ms` have passed since it ended.

        An interval that may change is a function, called each time.
        """

        def interval() -> int:
            return interval_ms if isinstance(interval_ms, int) else interval_ms()

        def begin() -> None:
            self._guard(name, again, lambda: self._slices(name, iter(job() or ()), again))

        def again() -> None:
            if not self._stopped:
                self._timers.schedule(self._clock.mono_ms() + interval(), begin)

        self._timers.schedule(self._clock.mono_ms() + (interval() if first_ms is None else first_ms), begin)

    def stop(self) -> None:
        """Start nothing more; a job under way is abandoned between two of its steps."""
        self._stopped = True

    def _slices(self, name: str, work: Iterator[object], again: Callable[[], None]) -> None:
        if self._stopped:
            return
        end = self._clock.mono_ms() + limits.HOUSEKEEPING_SLICE_MS
        go_on = partial(self._guard, name, again, partial(self._slices, name, work, again))
        for item in work:
            if isinstance(item, asyncio.Future):
                item.add_done_callback(lambda _: go_on())
                return
            if self._clock.mono_ms() >= end:
                self._timers.schedule(self._clock.mono_ms() + 1, go_on)
                return
        self._failing.discard(name)
        again()

    def _guard(self, name: str, again: Callable[[], None], step: Callable[[], None]) -> None:
        try:
            step()
        except FsyncFailed as error:
            self._on_failure(error)
        except Exception as error:  # a bug must not end a job for ever
            if name not in self._failing:
                self._failing.add(name)
                trace = None if isinstance(error, OSError) else error
                logger.error("Background job '%s' failed; it is retried at its next time: %s", name, error, exc_info=trace)
            again()

"""Measures how long a broker's loop is held: the processor time between two looks of a callback that runs in every turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.broker.testing.in_process import InProcessBroker


class LoopWatch:
    """`longest_ms` is the longest turn since the last `reset`, in milliseconds of the loop thread's processor time."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self.watching = True
        self._last_ns = 0

    def look(self) -> None:
        now_ns = time.thread_time_ns()
        if self._last_ns:
            self.longest_ms = max(self.longest_ms, (now_ns - self._last_ns) / 1e6)
        self._last_ns = now_ns
        if self.watching:
            asyncio.get_running_loop().call_soon(self.look)

    def reset(self) -> None:
        self.longest_ms = 0.0


@contextmanager
def watched(broker: InProcessBroker) -> Iterator[LoopWatch]:
    watch = LoopWatch()
    broker.call(lambda _: watch.look())
    try:
        yield watch
    finally:
        broker.call(lambda _: None)
        watch.watching = False

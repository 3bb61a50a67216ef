"""Shares the event loop among long computations. They wait in a queue; in each turn of the event loop, one of them runs for about
SLICE_MS."""

from __future__ import annotations

import asyncio
from collections import deque

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock


class Turns:
    """The long computations of one node that take turns on the event loop, in a queue."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._called = False
        self._slice_end_ns = 0
        self.list_lock = asyncio.Lock()
        """A lock that a request holds while it builds a long list for its response. Only one such list at a time is in memory, because the
        broker's limit on the memory of requests and responses does not count these lists.
        """

    async def wait_for_turn(self) -> None:
        """Wait until the calling computation may use the event loop. Return at once if the current time slice (SLICE_MS) is not used up and
        no other computation waits; otherwise wait in the queue.
        """
        if self._clock.spent_ns() < self._slice_end_ns and not self._waiting:
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._call_next()
        await mine

    def _call_next(self) -> None:
        if self._waiting and not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._called = False
        while self._waiting and self._waiting[0].done():  # its owner was cancelled
            self._waiting.popleft()
        if self._waiting:
            self._slice_end_ns = self._clock.spent_ns() + limits.SLICE_NS
            self._waiting.popleft().set_result(None)
            self._call_next()

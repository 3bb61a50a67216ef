"""Requests with many elements, which must not hold the loop: they are handled a part at a time, and read and written on a thread.

Rules:
- Only a request of more than SPLIT_REQUEST_BYTES comes here: a smaller one has no more elements than a few milliseconds are enough for.
- Those that are decoded at a time have LARGE_REQUESTS_BYTES together, since a decoded request may take thirty times its bytes. The others
  wait in the order in which they came, as the bytes that they arrived in.
- A response ends with an error, and its connection, where it would be larger than LARGE_RESPONSE_BYTES.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from ottla.broker.api.context import CloseConnection
from ottla.broker.api.request_parts import Split, join, split
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.protocol.codec import encode_response

T = TypeVar("T")
Compute = Callable[[Callable[[], T]], Awaitable[T]]


class Budget(Protocol):
    """Bytes that all connections hold."""

    used: int


class LargeRequests:
    """Those of one dispatcher. `compute` runs work on a thread. Requests are counted in `budget` until they are answered."""

    def __init__(self, clock: Clock, turns: Turns, compute: Compute[Any], budget: Budget | None) -> None:
        self._clock = clock
        self._turns = turns
        self._budget = budget
        self.compute = compute
        self._room = limits.LARGE_REQUESTS_BYTES
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Wait until a request of so many bytes may be decoded; it may be until the end of the block."""
        entered = asyncio.get_running_loop().create_future()
        wanted = min(size, limits.LARGE_REQUESTS_BYTES)
        self._waiting.append((wanted, entered))
        self._count(size)
        try:
            self._let_in()
            await entered
            yield
        finally:
            self._count(-size)
            if entered.done() and not entered.cancelled():
                self._room += wanted
            self._let_in()

    def _count(self, size: int) -> None:
        if self._budget is not None:
            self._budget.used += size

    def _let_in(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._room >= self._waiting[0][0]):
            size, entered = self._waiting.popleft()
            if not entered.done():
                self._room -= size
                entered.set_result(None)

    async def handled(self, ctx: Any, handle: Callable[[Any, Any], Any], request: Any, way: Split) -> Any:
        """The response to a request that is cut and left empty, with turns for others between its parts.

        `ctx.spent_ns` counts what the parts take of the loop.
        """
        gone: list[bool] = []
        ctx.peer.on_closed[gone.append] = lambda: gone.append(True)
        try:
            return await self._joined(ctx, handle, request, way, gone)
        finally:
            ctx.peer.on_closed.pop(gone.append, None)

    async def _joined(self, ctx: Any, handle: Callable[[Any, Any], Any], request: Any, way: Split, gone: Sequence[bool]) -> Any:
        parts = await self.compute(lambda: list(split(request, way))[::-1])
        whole, size = None, 0
        while parts:
            await self._turns.mine()
            part = parts.pop()
            if gone:
                raise CloseConnection("it is gone")
            begun_ns = self._clock.spent_ns()
            answer = handle(ctx, part)
            ctx.spent_ns += self._clock.spent_ns() - begun_ns
            if hasattr(answer, "__await__"):
                answer = await answer
            if answer is None:
                continue
            size += sum(map(len, encode_response(request.API_KEY, ctx.version, 0, answer)))
            if size > limits.LARGE_RESPONSE_BYTES:
                raise CloseConnection(f"the response to {type(request).__name__} would have more than {limits.LARGE_RESPONSE_BYTES} bytes")
            if getattr(answer, "error_code", 0):
                return answer
            if whole is None:
                whole = answer
            else:
                join(whole, answer, way.answers)
        return whole

"""Handling of requests with many elements without blocking the event loop: they are handled in parts, and decoded and encoded on a thread.

Rules:
* Only requests of more than SPLIT_REQUEST_BYTES are handled here; smaller ones take at most a few milliseconds.
* Requests that are decoded at the same time have at most LARGE_REQUESTS_BYTES in total, because a decoded request may take thirty times its
  bytes. The others wait undecoded, in order of arrival.
* If the response would exceed LARGE_RESPONSE_BYTES, the connection is closed without a response.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from ottla.broker.api.context import CloseConnection, Context
from ottla.broker.api.request_parts import join_responses, split_request
from ottla.broker.api.routes import Handler
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import NodeServices
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.protocol.codec import encode_response
from ottla.protocol.schema import Message

T = TypeVar("T")
Compute = Callable[[Callable[[], T]], Awaitable[T]]


class Budget(Protocol):
    """The memory budget that all connections share. `used` is the number of bytes of requests and responses that they hold in memory."""

    used: int


class LargeRequests:
    """Handles, for one dispatcher, requests with many elements in parts. `compute` runs work on a thread. The bytes of each request count
    towards the memory budget `budget` until the request is answered.
    """

    def __init__(self, clock: Clock, turns: Turns, compute: Compute[Any], budget: Budget | None) -> None:
        self._clock = clock
        self._turns = turns
        self._budget = budget
        self.compute = compute
        self._bytes_left = limits.LARGE_REQUESTS_BYTES
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def admission(self, size: int) -> AsyncIterator[None]:
        """Wait until a request of `size` bytes may be decoded. The request counts towards LARGE_REQUESTS_BYTES until the end of the `async
        with` block.
        """
        admitted = asyncio.get_running_loop().create_future()
        wanted = min(size, limits.LARGE_REQUESTS_BYTES)
        self._waiting.append((wanted, admitted))
        self._count(size)
        try:
            self._admit()
            await admitted
            yield
        finally:
            self._count(-size)
            if admitted.done() and not admitted.cancelled():
                self._bytes_left += wanted
            self._admit()

    def _count(self, size: int) -> None:
        if self._budget is not None:
            self._budget.used += size

    def _admit(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._bytes_left >= self._waiting[0][0]):
            size, admitted = self._waiting.popleft()
            if not admitted.done():
                self._bytes_left -= size
                admitted.set_result(None)

    async def handle_in_parts(self, ctx: Context[NodeServices], handle: Handler, request: Message, split: Split) -> Message | None:
        """Handle a large request in parts, one after the other. `split` says which array is split. Return the joined response (None for
        acks=0). Between parts, other connections are served. The split array of `request` is empty afterwards.

        `ctx.spent_ns` counts the time that the parts take on the event loop. Raises CloseConnection if the client disconnects, or if the
        response would exceed LARGE_RESPONSE_BYTES.
        """
        disconnected: list[bool] = []
        ctx.peer.on_closed[disconnected.append] = lambda: disconnected.append(True)
        try:
            return await self._joined(ctx, handle, request, split, disconnected)
        finally:
            ctx.peer.on_closed.pop(disconnected.append, None)

    async def _joined(
        self, ctx: Context[NodeServices], handle: Handler, request: Message, split: Split, disconnected: Sequence[bool]
    ) -> Message | None:
        parts = await self.compute(lambda: list(split_request(request, split))[::-1])
        whole: Message | None = None
        size = 0
        while parts:
            await self._turns.wait_for_turn()
            part = parts.pop()
            if disconnected:
                raise CloseConnection("the client has disconnected")
            begun_ns = self._clock.spent_ns()
            pending = handle(ctx, part)
            ctx.spent_ns += self._clock.spent_ns() - begun_ns
            answer = pending if pending is None or isinstance(pending, Message) else await pending
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
                join_responses(whole, answer, split.response_path.split("."))
        return whole

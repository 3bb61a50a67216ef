"""Handling of requests with many elements without blocking the event loop: they are handled in parts, and decoded and encoded on a thread.

Rules:
* Only requests of more than SPLIT_REQUEST_BYTES are handled here; smaller ones take at most a few milliseconds.
* Requests that are decoded at the same time have at most LARGE_REQUESTS_BYTES in total, because a decoded request may take thirty times its
  bytes. The others wait undecoded, in order of arrival.
* A request does not count towards LARGE_REQUESTS_BYTES any more when its handler waits: two long polls would stop all large requests. Its
  bytes and its decoded form then count as memory of its connection, which `net/memory_pressure` may close when memory is short. So do the
  bytes of a request that waits undecoded, except Produce.
* If a client disconnects, its request is not handled any further. Produce and OffsetCommit are, as in Kafka, because a client may send them
  and close its connection.
* If the response would exceed LARGE_RESPONSE_BYTES, the connection is closed without a response.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from ottla.broker.api.context import CloseConnection, Context, LaterPart, Peer, no_admission
from ottla.broker.api.request_parts import join_responses, split_request
from ottla.broker.api.routes import Handler
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import NodeServices
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import encode_response
from ottla.protocol.schema import Message

T = TypeVar("T")
Compute = Callable[[Callable[[], T]], Awaitable[T]]

_WITHOUT_CLIENT = frozenset({ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT})
"""APIs whose requests are handled to their end if the client has disconnected."""
_ONLY_WAIT = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""APIs whose pending requests change nothing any more, and may wait for as long as the client says."""


class Budget(Protocol):
    """The memory budget that all connections share. `used` is the number of bytes of requests and responses that they hold in memory."""

    used: int


@dataclass(slots=True, eq=False)
class Admission:
    """A large request of the client `peer` that is decoded and handled by `task`, or waits for that."""

    peer: Peer
    api_key: int
    counted: int
    """The number of bytes that the request counts towards the memory budget of all connections: its own, and later those of its decoded
    form."""
    admitted: asyncio.Future[None]
    task: asyncio.Task[Any] | None
    elements: int = 0
    """The number of array elements of the decoded request (`request_parts.count_elements`)."""
    held: int = 0
    """The number of bytes that the request counts towards LARGE_REQUESTS_BYTES."""


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
        self._waiting: deque[Admission] = deque()

    @asynccontextmanager
    async def admission(self, peer: Peer, size: int, api_key: int) -> AsyncIterator[Admission]:
        """Wait until a request of `size` bytes of the client `peer` may be decoded. The request counts towards LARGE_REQUESTS_BYTES until
        its handler waits (`peer.begin_wait`) or the `async with` block ends, and towards the memory budget until the block ends.

        The task is cancelled if the client disconnects while the request waits to be decoded (except Produce), or while the handler of a
        Fetch, JoinGroup or SyncGroup waits.
        """
        admission = Admission(peer, api_key, size, asyncio.get_running_loop().create_future(), asyncio.current_task())
        self._waiting.append(admission)
        self._count(size)
        try:
            self._admit()
            if not admission.admitted.done() and api_key != ApiKey.PRODUCE:
                peer.waiting_bytes = size
                peer.on_closed[admission] = partial(self._abandon, admission)
            await admission.admitted
            peer.waiting_bytes = 0
            peer.on_closed.pop(admission, None)
            peer.begin_wait = partial(self._begin_wait, admission)
            yield admission
        finally:
            peer.begin_wait = no_admission
            peer.on_closed.pop(admission, None)
            self._count(-admission.counted)
            peer.waiting_bytes = 0
            admission.task = None  # otherwise the traceback of a cancellation, which has the request's bytes, is in a reference cycle
            self._release(admission)

    def _begin_wait(self, admission: Admission) -> None:
        """Let other requests be decoded, because the handler of this one waits. Its decoded form counts towards the memory budget now."""
        if not admission.held:
            return
        decoded = admission.elements * limits.DECODED_ELEMENT_BYTES
        admission.counted += decoded
        admission.peer.waiting_bytes = admission.counted
        self._count(decoded)
        self._release(admission)
        if admission.api_key in _ONLY_WAIT:
            admission.peer.on_closed[admission] = partial(self._abandon, admission)

    def _abandon(self, admission: Admission) -> None:
        """Cancel a request that waits, because its client has disconnected. Its memory counts as free at once: otherwise further
        connections would be closed until the task has ended."""
        assert admission.task is not None
        admission.task.cancel()
        self._count(-admission.counted)
        admission.counted = admission.peer.waiting_bytes = 0

    def _release(self, admission: Admission) -> None:
        self._bytes_left += admission.held
        admission.held = 0
        self._admit()

    def _count(self, size: int) -> None:
        if self._budget is not None:
            self._budget.used += size

    def _admit(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            held = min(first.counted, limits.LARGE_REQUESTS_BYTES)
            if not first.admitted.done():
                if self._bytes_left < held:
                    break
                self._bytes_left -= held
                first.held = held
                first.admitted.set_result(None)
            self._waiting.popleft()

    async def handle_in_parts(self, ctx: Context[NodeServices], handle: Handler, request: Message, split: Split) -> Message | None:
        """Handle a large request in parts, one after the other. `split` says which array is split. Return the joined response (None for
        acks=0). Between parts, other connections are served. The split array of `request` is empty afterwards.

        `ctx.spent_ns` counts the time that the parts take on the event loop. Raises CloseConnection if the client disconnects (except for
        OffsetCommit), or if the response would exceed LARGE_RESPONSE_BYTES. A Produce is handled to its end even if the client disconnects,
        or a partition's error closes the connection (acks=0): Kafka, too, appends all batches of a request that it has received.
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
        failed: str | None = None
        size = 0
        later = LaterPart(ctx.version, ctx.client_id, ctx.peer, ctx.services, ctx.api_key)
        while parts:
            await self._turns.wait_for_turn()
            part = parts.pop()
            if disconnected and request.API_KEY not in _WITHOUT_CLIENT:
                raise CloseConnection("the client has disconnected")
            begun_ns = self._clock.spent_ns()
            try:
                pending = handle(ctx if whole is None else later, part)
                ctx.spent_ns += self._clock.spent_ns() - begun_ns
                if pending is None or isinstance(pending, Message):
                    answer = pending
                else:
                    ctx.peer.begin_wait()
                    answer = await pending
            except CloseConnection as error:
                if request.API_KEY != ApiKey.PRODUCE:
                    raise
                failed, answer = str(error), None
            ctx.spent_ns, later.spent_ns = ctx.spent_ns + later.spent_ns, 0
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
        if failed is not None:
            raise CloseConnection(failed)
        return whole

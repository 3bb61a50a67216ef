"""Producer ids for this broker's clients, from blocks that the controller allocates (Kafka's `RPCProducerIdManager`).

Invariants:

* An id is used only after the metadata record of its block is durable. Until then a request for an id waits if the controller is in this
  process; otherwise it fails at once with a retriable error.
* The next block is requested when nine tenths of the current one are used, so a request rarely has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.protocol.error_codes import ErrorCode

_PREFETCH_FRACTION: Final = 0.1
"""The next block of producer ids is requested when this fraction of the current block is left
(RPCProducerIdManager.PID_PREFETCH_THRESHOLD)."""


class NoProducerId(Rejected):
    """Raised if no producer id is available now (COORDINATOR_LOAD_IN_PROGRESS). A caller that can wait then uses `ProducerIds.wait`."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is available yet")


class ProducerIds:
    """Returns producer ids one by one, from blocks that the controller allocates. `allocate` returns the next block, or raises Rejected.
    `local` is true if the controller is in this process, so that `wait` may wait for the next block."""

    def __init__(self, allocate: Callable[[], Awaitable[range]], nursery: Nursery, *, local: bool = True) -> None:
        self._allocate = allocate
        self._local = local
        self._next = self._end = self._prefetch_from = 0
        self._next_block: range | None = None
        self._nursery = nursery
        self._asking: asyncio.Future[None] | None = None

    def generate(self) -> int:
        """Return a producer id that was never returned before. Raises NoProducerId if none is available now."""
        if self._next == self._end:
            self._begin_block()
        given = self._next
        self._next += 1
        if self._next >= self._prefetch_from and self._next_block is None:
            self._ask()
        return given

    def _begin_block(self) -> None:
        block, self._next_block = self._next_block, None
        if block is None:
            self._ask()
            raise NoProducerId
        self._next, self._end = block.start, block.stop
        self._prefetch_from = block.stop - int(len(block) * _PREFETCH_FRACTION)

    async def wait(self) -> None:
        """Wait until a producer id is available. Raises Rejected if the controller allocates no block of ids. If `local` is false, raises
        NoProducerId instead of waiting."""
        while self._next == self._end and self._next_block is None:
            if not self._local:
                raise NoProducerId
            await asyncio.shield(self._ask())

    def _ask(self) -> asyncio.Future[None]:
        if self._asking is None or self._asking.done():
            self._asking = self._nursery.run("allocation of producer ids", self._fetch)
        return self._asking

    async def _fetch(self) -> None:
        self._next_block = await self._allocate()

"""Producer ids for this broker's clients, from blocks that it asks the controller for (Kafka's `RPCProducerIdManager`).

Rules that hold here:

* An id is given only from a block that is on disk. Whoever comes while there is none waits for the next block, and nobody else does; where
  another node gives the blocks, they are told at once to come again.
* The next block is asked for when nine tenths of the present one are given, so that hardly anybody waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

_ASK_AT: Final = 0.1
"""What is left of a block when the next one is asked for (RPCProducerIdManager.PID_PREFETCH_THRESHOLD)."""


class NoProducerId(Rejected):
    """There is none at hand: whoever can waits (`ProducerIds.wait`), all others are told to come again."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand")


class ProducerIds:
    """`allocate` brings a block; it raises Rejected when there is none. `local`: this process gives the blocks, and soon."""

    def __init__(self, allocate: Callable[[], Awaitable[range]], *, local: bool = True) -> None:
        self._allocate = allocate
        self._local = local
        self._next = self._end = self._ask_from = 0
        self._next_block: range | None = None
        self._asking: asyncio.Task[None] | None = None

    def take(self) -> int:
        """An id never given before. Raises NoProducerId."""
        if self._next == self._end:
            self._begin_block()
        given = self._next
        self._next += 1
        if self._next >= self._ask_from and self._next_block is None:
            self._ask()
        return given

    def _begin_block(self) -> None:
        block, self._next_block = self._next_block, None
        if block is None:
            self._ask()
            raise NoProducerId
        self._next, self._end = block.start, block.stop
        self._ask_from = block.stop - int(len(block) * _ASK_AT)

    async def wait(self) -> None:
        """Until there is an id to take. Raises Rejected when none can be had, or NoProducerId where a client is not to wait for it."""
        while self._next == self._end and self._next_block is None:
            if not self._local:
                raise NoProducerId
            await asyncio.shield(self._ask())

    def _ask(self) -> asyncio.Task[None]:
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._fetch())
            self._asking.add_done_callback(self._asked)
        return self._asking

    async def _fetch(self) -> None:
        self._next_block = await self._allocate()

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.warning("No producer ids could be had: %s", error)

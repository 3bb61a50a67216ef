"""Decides changes of a standalone node's metadata: one decision at a time, and no other writer of the metadata log.

Invariants:

* Decide, write, wait for the sync, apply, publish: the next decision sees the result. Records are therefore applied in log order.
* A decision that has started is completed even if its caller is cancelled.

Source: Kafka's QuorumController, whose event queue does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image_changes import ImageChanges
from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.metadata.metadata_log import MetadataLog

T = TypeVar("T")
R = TypeVar("R")

Decide = Callable[[], "Effects[MetadataRecord, T]"]
Refused = dict[str, "Rejected"]
"""Topics that the metadata has and for which this broker's disk rejected a partition, with the error."""
Publish = Callable[["ImageChanges"], Awaitable[Refused]]


class Controller:
    """Runs decisions. `publish` is called with each decision's changes when they are on disk and applied."""

    def __init__(self, catalog: Catalog, metadata_log: MetadataLog, publish: Publish) -> None:
        self._catalog = catalog
        self._metadata_log = metadata_log
        self._publish = publish
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[object]] = set()

    async def run(self, decide: Decide[T], respond: Callable[[T, Refused], R], *, validate_only: bool = False) -> R:
        """Run a decision and return what `respond` makes of its response and of the topics that the disk rejected.

        Raises what `decide` raises, and Rejected if the metadata log cannot be written; then nothing has changed.
        """
        task: asyncio.Task[R] = asyncio.get_running_loop().create_task(self._in_turn(decide, respond, validate_only))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def settled(self) -> None:
        """Wait until the decisions made so far are published."""
        if self._turn.locked():
            async with self._turn:
                pass

    async def stop(self) -> None:
        """Wait for the decisions that have started."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _in_turn(self, decide: Decide[T], respond: Callable[[T, Refused], R], validate_only: bool) -> R:
        async with self._turn:
            effects = decide()
            if validate_only or not effects.records:
                return respond(effects.response, {})
            changes = await self._metadata_log.write(effects.records)
            return respond(effects.response, await self._publish(changes))

"""Where the cluster's metadata is decided: one decision at a time, and no other writer of the metadata log.

Rules that hold here:

* Decide, write, wait until it is on disk, apply, publish: the next decision sees all of it. So records are applied in the order of the log,
  whoever asked for them.
* What has begun is carried through, even when whoever asked for it has gone.

Source: KAFKA QuorumController, whose event queue does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
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
"""Topics that are in the metadata and not, or not whole, on this broker's disk."""
Publish = Callable[["ImageChanges"], Awaitable[Refused]]


class Controller:
    """`publish` is called with what each decision changed, when it is on disk and applied."""

    def __init__(self, catalog: Catalog, metadata_log: MetadataLog, publish: Publish) -> None:
        self._catalog = catalog
        self._metadata_log = metadata_log
        self._publish = publish
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[object]] = set()

    async def run(self, decide: Decide[T], respond: Callable[[T, Refused], R], *, validate_only: bool = False) -> R:
        """What `respond` makes of the decision and of what the disk refused.

        Raises what `decide` raises, and Rejected when the metadata log cannot be written; then nothing has changed.
        """
        task: asyncio.Task[R] = asyncio.get_running_loop().create_task(self._in_turn(decide, respond, validate_only))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def settled(self) -> None:
        """Until what has been decided so far is carried out."""
        if self._turn.locked():
            async with self._turn:
                pass

    async def stop(self) -> None:
        """Waits for what has begun."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _in_turn(self, decide: Decide[T], respond: Callable[[T, Refused], R], validate_only: bool) -> R:
        async with self._turn:
            effects = decide()
            if validate_only or not effects.records:
                return respond(effects.response, {})
            changes = await self._metadata_log.write(effects.records)
            return respond(effects.response, await self._publish(changes))

"""The cluster's metadata as a broker follows it that is in one process with its controller: what `MetadataObserver` is to any other.

What the controller has committed is published here, one image after the other; there is one log, and the controller's part writes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.broker.cluster.image import EMPTY
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.runtime.nodes.link import Node

if TYPE_CHECKING:
    from ottla.broker.runtime.quorum.controller_role import ControllerRole

logger = logging.getLogger(__name__)


class LocalMetadata:
    """`role` has started. What is published first has all that is in it as its changes. `on_failure` is told what `on_published` raised."""

    def __init__(
        self, role: ControllerRole, on_published: Callable[[Published], Awaitable[None]], on_failure: Callable[[BaseException], None]
    ) -> None:
        self._role = role
        self._on_published = on_published
        self._on_failure = on_failure
        self._news: deque[Published] = deque()
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.applied_offset = -1
        """The last offset of which everything is published; -1 before anything is."""

    @property
    def controller(self) -> Node:
        """That of this process."""
        me = self._role.voter.me
        return Node(me.node_id, me.endpoints[0].host, me.endpoints[0].port)

    @property
    def kraft_version(self) -> int:
        """The level of the quorum's own feature."""
        return self._role.voter.quorum.kraft_version

    def start(self) -> None:
        """Begins. Call once, on the loop."""
        first = self._role.newest
        self._hear(first._replace(changes=difference(EMPTY, first.image)))
        self._role.followers.append(self._hear)
        self._task = asyncio.ensure_future(self._publish())
        self._task.add_done_callback(self._ended)

    def end(self) -> None:
        """Publishes nothing more."""
        if self._hear in self._role.followers:
            self._role.followers.remove(self._hear)
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Ends; a publication that is under way is cancelled."""
        self.end()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def _hear(self, published: Published) -> None:
        self._news.append(published)
        self._moved.set()

    async def _publish(self) -> None:
        while True:
            while self._news:
                published = self._news.popleft()
                await self._on_published(published)
                self.applied_offset = published.provenance.offset
            self._moved.clear()
            await self._moved.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.critical("The cluster's metadata cannot be followed any further: %s", error, exc_info=error)
            self._on_failure(error)

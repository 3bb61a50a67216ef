"""Publishes the cluster's metadata to a broker that runs in the same process as its controller, in place of a `MetadataObserver`.

There is one log, written by the controller role. Each image that it commits is published here, one at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from ottla.broker.cluster.image import EMPTY
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.quorum.controller_role import ControllerRole
from ottla.broker.runtime.upkeep.nursery import Nursery, OnFailure


class LocalMetadata:
    """Passes the images of `role`, which must have started, to `on_published`.

    The first image's changes are its whole contents. The node is lost if `on_published` raises.
    """

    def __init__(self, role: ControllerRole, on_published: Callable[[Published], Awaitable[None]], nursery: Nursery) -> None:
        self._role = role
        self._on_published = on_published
        self._nursery = nursery
        self._news: deque[Published] = deque()
        self._moved = asyncio.Event()
        self.applied_offset = -1
        """The last offset whose records are all published; -1 before the first publication."""

    @property
    def controller(self) -> Node:
        """This process's own node: it is always the controller."""
        me = self._role.voter.me
        return Node(me.node_id, me.endpoints[0].host, me.endpoints[0].port)

    @property
    def kraft_version(self) -> int:
        """The finalized kraft.version."""
        return self._role.voter.quorum.kraft_version

    def start(self) -> None:
        """Start to publish. Call once, on the loop."""
        first = self._role.newest
        self._enqueue(first._replace(changes=difference(EMPTY, first.image)))
        self._role.followers.append(self._enqueue)
        forget = partial(self._role.followers.remove, self._enqueue)
        self._nursery.at_close(forget, forget)
        self._nursery.start("publication of the cluster's metadata", self._publish, OnFailure.LOST)

    def _enqueue(self, published: Published) -> None:
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

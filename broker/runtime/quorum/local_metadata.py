"""Passes the cluster's metadata to a broker that runs in the same process as its controller. A broker in another process fetches the
metadata instead (`MetadataObserver`).

The process has one metadata log, which the controller writes. Each committed image is passed to the broker, one at a time.
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
from ottla.broker.runtime.quorum.quorum_controller import QuorumController
from ottla.broker.runtime.upkeep.nursery import Nursery, OnFailure


class LocalMetadata:
    """Passes the metadata images of `controller`, which must have been opened, to `on_published`, which applies them to the broker.

    `applied_offset` is the last offset of the metadata log that the broker has applied already, -1 for none. If the controller has later
    records, all contents of the first image count as changes. An exception of `on_published` ends the process, because a later image must
    not be applied without the failed one.
    """

    def __init__(
        self,
        controller: QuorumController,
        on_published: Callable[[Published], Awaitable[None]],
        nursery: Nursery,
        applied_offset: int = -1,
    ) -> None:
        self._quorum = controller
        self._on_published = on_published
        self._nursery = nursery
        self._unapplied: deque[Published] = deque()
        self._enqueued = asyncio.Event()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.applied_offset = applied_offset
        """The offset of the last record of the metadata log that the broker has applied; -1 before the first image."""

    @property
    def controller(self) -> Node:
        """The node to which this broker sends its requests for the controller: always its own process."""
        me = self._quorum.voter.me
        return Node(me.node_id, me.endpoints[0].host, me.endpoints[0].port)

    @property
    def kraft_version(self) -> int:
        """The finalized level of the feature kraft.version."""
        return self._quorum.voter.quorum.kraft_version

    def start(self) -> None:
        """Start to pass the committed images to the broker. Call this once, on the event loop."""
        first = self._quorum.newest
        if first.provenance.offset > self.applied_offset:
            self._enqueue(first._replace(changes=difference(EMPTY, first.image)))
        self._quorum.followers.append(self._enqueue)
        forget = partial(self._quorum.followers.remove, self._enqueue)
        self._nursery.at_close(forget, forget)
        self._nursery.start("publication of the cluster's metadata", self._publish, OnFailure.LOST)

    def up_to_date(self) -> asyncio.Future[None]:
        """Return a future that is done when the broker has applied all metadata that is committed now."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        committed = self._quorum.newest.provenance.offset
        if self.applied_offset >= committed:
            done.set_result(None)
        else:
            self._waiting.append((committed, done))
        return done

    def _enqueue(self, published: Published) -> None:
        self._unapplied.append(published)
        self._enqueued.set()

    async def _publish(self) -> None:
        while True:
            while self._unapplied:
                published = self._unapplied.popleft()
                await self._on_published(published)
                self.applied_offset = published.provenance.offset
                while self._waiting and self._waiting[0][0] <= self.applied_offset:
                    if not (done := self._waiting.popleft()[1]).done():
                        done.set_result(None)
            self._enqueued.clear()
            await self._enqueued.wait()

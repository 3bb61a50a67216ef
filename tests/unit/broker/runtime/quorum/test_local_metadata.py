"""A broker's metadata in one process with the controller. With whole nodes: tests/scenario/test_combined_node.py."""

from __future__ import annotations

import asyncio
from typing import cast

from ottla.broker.cluster.image import EMPTY
from ottla.broker.cluster.image_changes import ImageChanges
from ottla.broker.cluster.metadata_loader import Provenance, Published
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.quorum.controller_role import ControllerRole
from ottla.broker.runtime.quorum.local_metadata import LocalMetadata
from ottla.broker.runtime.upkeep.nursery import Nursery
from tests.support.simulation import settle
from tests.support.voter_harness import VoterHarness


class Role:
    """A stand-in for a controller's role: the published metadata, which a broker in the same process follows."""

    def __init__(self) -> None:
        self.voter = VoterHarness().begin()
        self.newest = Published(EMPTY, Provenance(3), ImageChanges())
        self.followers: list[object] = []

    def publish(self, offset: int) -> None:
        self.newest = Published(EMPTY, Provenance(offset), ImageChanges())
        for follower in self.followers:
            assert callable(follower)
            follower(self.newest)


async def test_images_are_published_in_order_and_counted_afterwards() -> None:
    role, held, seen = Role(), asyncio.Event(), list[int]()

    async def published(news: Published) -> None:
        seen.append(news.provenance.offset)
        await held.wait()

    nursery = Nursery(Timers(), VirtualClock(), lambda _: None)
    metadata = LocalMetadata(cast(ControllerRole, role), published, nursery)
    metadata.start()
    role.publish(4)
    await settle()
    assert (seen, metadata.applied_offset) == ([3], -1)
    held.set()
    await settle()
    assert (seen, metadata.applied_offset) == ([3, 4], 4)
    await nursery.stop()
    role.publish(5)
    await settle()
    assert seen == [3, 4]
    assert (metadata.controller, metadata.kraft_version) == (Node(1, "c1", 9093), 0)


async def test_a_failed_publication_stops_the_process() -> None:
    failures: list[BaseException] = []

    async def published(_: Published) -> None:
        raise ValueError("no")

    metadata = LocalMetadata(cast(ControllerRole, Role()), published, Nursery(Timers(), VirtualClock(), failures.append))
    metadata.start()
    await settle()
    assert [str(error) for error in failures] == ["no"]

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.replicas.fetch_waits import FetchWaits
from ottla.broker.runtime.replicas.partition import Partition
from tests.support.partition_logs import PartitionScene, one_batch

SIZE = len(one_batch())


class Scene:
    def __init__(self, path: Path) -> None:
        self.timers = Timers()
        self.waits = FetchWaits(self.timers)
        self.logs = PartitionScene(path, VirtualClock(), partitions=2)

    def partition(self, index: int) -> Partition:
        return self.logs.partitions.get("t", index)

    def wait(self, missing: int, deadline: int = 1000) -> asyncio.Future[Collection[Partition] | None]:
        return self.waits.wait([self.partition(0), self.partition(1)], missing, deadline)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    opened = Scene(tmp_path / "data")
    yield opened
    opened.logs.close()


async def test_an_append_to_any_of_the_partitions_ends_the_wait(scene: Scene) -> None:
    waiting = scene.wait(1)
    scene.partition(1).append(one_batch())
    assert await waiting == {scene.partition(1)}


async def test_what_else_is_appended_in_the_same_turn_is_among_what_changed(scene: Scene) -> None:
    waiting = scene.wait(1)
    scene.partition(1).append(one_batch())
    scene.partition(0).append(one_batch())
    assert await waiting == {scene.partition(0), scene.partition(1)}


async def test_bytes_of_all_partitions_count_together(scene: Scene) -> None:
    waiting = scene.wait(2 * SIZE)
    scene.partition(0).append(one_batch())
    assert not waiting.done()
    scene.partition(1).append(one_batch())
    assert await waiting == {scene.partition(0), scene.partition(1)}


async def test_the_deadline_ends_the_wait_with_nothing(scene: Scene) -> None:
    waiting = scene.wait(1, deadline=50)
    scene.timers.run_due(49)
    assert not waiting.done()
    scene.timers.run_due(50)
    assert await waiting is None


async def test_a_deleted_topic_ends_the_wait(scene: Scene) -> None:
    waiting, deleted = scene.wait(10_000), scene.partition(0)
    scene.logs.partitions.remove("t", 0)
    assert await waiting == {deleted}


@pytest.mark.parametrize("how", ["data", "deadline", "cancel", "release"])
async def test_whatever_ended_a_wait_leaves_nothing_behind(scene: Scene, how: str) -> None:
    waiting = scene.wait(1)
    assert scene.waits.parked == 1
    match how:
        case "data":
            scene.partition(0).append(one_batch())
        case "deadline":
            scene.timers.run_due(1000)
        case "cancel":
            waiting.cancel()
        case "release":
            scene.waits.release_all()
    await asyncio.wait([waiting])
    await asyncio.sleep(0)
    assert scene.waits.parked == 0
    assert len(scene.timers) == 0
    assert not scene.partition(0).watchers
    assert not scene.partition(1).watchers


async def test_those_who_wait_are_released_in_the_order_in_which_they_came(scene: Scene) -> None:
    released: list[int] = []
    for number in range(50):
        scene.wait(SIZE).add_done_callback(lambda _, number=number: released.append(number))
    scene.waits.release_all()
    await asyncio.sleep(0)
    assert released == list(range(50))

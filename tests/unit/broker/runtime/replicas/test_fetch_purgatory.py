from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.replicas.fetch_purgatory import FetchPurgatory
from ottla.broker.runtime.replicas.fetch_sessions import CachedPartition, FetchSession
from ottla.broker.runtime.replicas.partition import Partition
from ottla.protocol.messages.k01_fetch import FetchPartition
from tests.support.partition_logs import PartitionHarness, one_batch

SIZE = len(one_batch())


class Harness:
    def __init__(self, path: Path) -> None:
        self.timers = Timers()
        self.waits = FetchPurgatory(self.timers)
        self.logs = PartitionHarness(path, VirtualClock(), partitions=2)
        self.session = FetchSession(1, uses_topic_ids=False, created_ms=0, last_used_ms=0)
        for index in (0, 1):
            self.session.add(CachedPartition("t", FetchPartition(index)))
        self.read()

    def partition(self, index: int) -> Partition:
        return self.logs.partitions.get("t", index)

    def read(self) -> None:
        """Mark both partitions as read and unchanged."""
        for cached in self.session.partitions.values():
            cached.watch(self.partition(cached.requested.partition), quiet=True)
            self.session.mark_clean(cached)

    @property
    def changed(self) -> set[int]:
        return {cached.requested.partition for cached in self.session.pending()}

    def wait(self, missing: int, deadline: int = 1000) -> asyncio.Future[bool]:
        return self.waits.wait(self.session, missing, deadline)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    opened = Harness(tmp_path / "data")
    yield opened
    opened.logs.close()


async def test_append_to_any_partition_completes_the_fetch(harness: Harness) -> None:
    waiting = harness.wait(1)
    harness.partition(1).append(one_batch())
    assert (await waiting, harness.changed) == (True, {1})


async def test_appends_in_the_same_turn_are_among_the_changed_partitions(harness: Harness) -> None:
    waiting = harness.wait(1)
    harness.partition(1).append(one_batch())
    harness.partition(0).append(one_batch())
    assert (await waiting, harness.changed) == (True, {0, 1})


async def test_min_bytes_counts_all_partitions_together(harness: Harness) -> None:
    waiting = harness.wait(2 * SIZE)
    harness.partition(0).append(one_batch())
    assert not waiting.done()
    harness.partition(1).append(one_batch())
    assert (await waiting, harness.changed) == (True, {0, 1})


async def test_min_bytes_counts_successive_appends_of_a_partition(harness: Harness) -> None:
    waiting = harness.wait(3 * SIZE)
    harness.partition(0).append(one_batch())
    harness.partition(0).append(one_batch())
    assert not waiting.done()
    harness.partition(0).append(one_batch())
    assert (await waiting, harness.changed) == (True, {0})


async def test_moved_log_start_completes_no_fetch_and_is_among_the_changed_partitions(harness: Harness) -> None:
    harness.partition(0).append(one_batch())
    harness.read()
    waiting = harness.wait(1)
    harness.partition(0).log.delete_records_before(1)
    assert (waiting.done(), harness.changed) == (False, {0})
    harness.partition(0).append(one_batch())
    assert await waiting


async def test_deadline_completes_the_fetch_without_changes(harness: Harness) -> None:
    waiting = harness.wait(1, deadline=50)
    harness.timers.run_due(49)
    assert not waiting.done()
    harness.timers.run_due(50)
    assert (await waiting, harness.changed) == (False, set())


async def test_deleted_topic_completes_the_fetch(harness: Harness) -> None:
    waiting = harness.wait(10_000)
    harness.logs.partitions.remove("t", 0)
    assert (await waiting, harness.changed) == (True, {0})


async def test_closed_session_completes_the_fetch_and_removes_its_watchers(harness: Harness) -> None:
    waiting = harness.wait(1)
    harness.session.close()
    assert not await waiting
    assert not harness.partition(0).watchers
    assert not harness.partition(1).watchers


@pytest.mark.parametrize("how", ["data", "deadline", "cancel", "release"])
async def test_completed_fetch_leaves_no_timer_or_waiter_however_it_ended(harness: Harness, how: str) -> None:
    waiting = harness.wait(1)
    assert harness.waits.waiting == 1
    match how:
        case "data":
            harness.partition(0).append(one_batch())
        case "deadline":
            harness.timers.run_due(1000)
        case "cancel":
            waiting.cancel()
        case "release":
            harness.waits.release_all()
    await asyncio.wait([waiting])
    await asyncio.sleep(0)
    assert harness.waits.waiting == 0
    assert len(harness.timers) == 0
    assert harness.session.waiter is None
    for cached in harness.session.partitions.values():
        watched = harness.partition(cached.requested.partition).watchers
        assert list(watched) == ([] if cached in harness.session.dirty else [cached])


async def test_waiting_fetches_are_released_in_arrival_order(harness: Harness) -> None:
    released: list[int] = []
    for number in range(50):
        session = FetchSession(number, uses_topic_ids=False, created_ms=0, last_used_ms=0)
        harness.waits.wait(session, SIZE, 1000).add_done_callback(lambda _, number=number: released.append(number))
    harness.waits.release_all()
    await asyncio.sleep(0)
    assert released == list(range(50))

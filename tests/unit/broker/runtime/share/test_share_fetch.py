from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.share.share_fetch import FetchResult
from ottla.broker.share.acknowledgement import AcknowledgementBatch
from ottla.broker.share.settings import ShareSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import split_batches
from tests.support.share_scene import KEY, LOCK_MS, ShareScene, acquired


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[ShareScene]:
    opened = ShareScene(tmp_path / "data", partitions=2)
    yield opened
    opened.logs.close()


async def test_an_append_ends_the_wait(scene: ShareScene) -> None:
    waiting = scene.begin()
    scene.append(b"a")
    assert acquired(await waiting) == [(0, 0, 1)]
    assert (scene.fetches.waiting, scene.on_closed, scene.partition().watchers) == (0, {}, {})


async def test_a_wait_ends_at_its_deadline(scene: ShareScene) -> None:
    waiting = scene.begin()
    await asyncio.sleep(0)
    scene.advance(999)
    assert scene.fetches.waiting == 1
    scene.advance(1)
    assert acquired(await waiting) == []


async def test_a_fetch_waits_for_min_bytes(scene: ShareScene) -> None:
    waiting = scene.begin(min_bytes=200)
    for _ in range(2):
        scene.append(b"x" * 50)
        await asyncio.sleep(0)
    assert acquired(await waiting) == [(0, 1, 1)]


async def test_of_two_waiting_members_one_acquires_the_record_and_the_other_goes_on_waiting(scene: ShareScene) -> None:
    first, second = scene.begin(member="m"), scene.begin(member="n")
    scene.append(b"a")
    assert acquired(await first) == [(0, 0, 1)]
    scene.append(b"b")
    assert acquired(await second) == [(1, 1, 1)]


async def test_an_acknowledgement_that_makes_room_ends_the_wait(tmp_path: Path) -> None:
    scene = ShareScene(tmp_path / "full", settings=ShareSettings(partition_max_record_locks=1))
    scene.append(b"a")
    scene.append(b"b")
    assert acquired(scene.fetch(max_records=1)) == [(0, 0, 1)]
    waiting = scene.begin(member="n")
    scene.shares.acknowledge(KEY, "m", [AcknowledgementBatch(0, 0, [1])])
    assert acquired(await waiting) == [(1, 1, 1)]
    scene.logs.close()


async def test_an_expired_lock_ends_the_wait(scene: ShareScene) -> None:
    scene.append(b"a")
    scene.fetch()
    waiting = scene.begin(member="n", max_wait_ms=60_000)
    await asyncio.sleep(0)
    scene.advance(LOCK_MS)
    assert acquired(await waiting) == [(0, 0, 2)]


async def test_a_fetch_waits_until_the_share_partition_is_loaded(scene: ShareScene) -> None:
    scene.append(b"a")
    scene.persister.holds_back = True
    waiting = scene.begin()
    await asyncio.sleep(0)
    scene.persister.holds_back = False
    scene.persister.let_go()
    assert acquired(await waiting) == [(0, 0, 1)]


async def test_a_share_partition_that_cannot_be_loaded_is_answered_with_the_error(scene: ShareScene) -> None:
    scene.persister.holds_back = True
    waiting = scene.begin()
    await asyncio.sleep(0)
    scene.persister.fail(ErrorCode.NOT_COORDINATOR)
    assert list((await waiting).values()) == [FetchResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_an_error_of_all_partitions_is_answered_at_once(scene: ShareScene) -> None:
    scene.persister.refusal = Rejected(ErrorCode.GROUP_ID_NOT_FOUND)
    assert scene.fetch(max_wait_ms=1_000) == {key: FetchResult(ErrorCode.GROUP_ID_NOT_FOUND) for key in scene.keys(1)}


async def test_the_end_of_leadership_is_answered_with_an_error(scene: ShareScene) -> None:
    waiting = scene.begin()
    await asyncio.sleep(0)
    scene.shares.resigned("t", 0, 1)
    assert [result.error for result in (await waiting).values()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_closed_connection_cancels_the_wait(scene: ShareScene) -> None:
    waiting = scene.begin()
    await asyncio.sleep(0)
    for callback in list(scene.on_closed.values()):
        callback()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert scene.partition().watchers == {}


async def test_a_shutdown_answers_waiting_fetches(scene: ShareScene) -> None:
    waiting = scene.begin()
    await asyncio.sleep(0)
    scene.fetches.release_all()
    assert acquired(await waiting) == []


def test_only_the_batches_of_acquired_records_are_sent(scene: ShareScene) -> None:
    for _ in range(5):
        scene.append(b"a", b"b")
    (result,) = scene.results(max_records=3)
    assert [header.base_offset for _, header in split_batches(bytes(result.records))] == [0, 2]


def test_the_records_of_a_fetch_are_limited_over_all_partitions(scene: ShareScene) -> None:
    for index in (0, 1):
        scene.append(b"a", index=index)
    assert [result.acquired for result in scene.results(partitions=2, max_records=1)] == [[(0, 0, 1)], ()]


def test_the_first_batch_is_sent_whole_however_small_max_bytes_is(scene: ShareScene) -> None:
    scene.append(b"x" * 1_000)
    assert acquired(scene.fetch(max_bytes=10)) == [(0, 0, 1)]


def test_many_records_are_read_in_growing_steps(scene: ShareScene) -> None:
    for _ in range(400):
        scene.append(b"x" * 1_000)
    assert acquired(scene.fetch(max_records=400)) == [(0, 399, 1)]


def test_a_fetch_below_the_logs_start_moves_the_start_offset(scene: ShareScene) -> None:
    scene.append(b"a")
    scene.append(b"b")
    scene.shares.get(KEY)
    scene.partition().log.delete_records_before(1)
    assert acquired(scene.fetch()) == []
    assert acquired(scene.fetch()) == [(1, 1, 1)]


async def test_very_many_partitions_are_read_in_slices(tmp_path: Path) -> None:
    many = limits.FETCHED_AT_ONCE + 10
    scene = ShareScene(tmp_path / "many", partitions=many)
    scene.append(b"a", index=many - 1)
    assert acquired(await scene.begin(partitions=many)) == [(0, 0, 1)]
    waiting = scene.begin(partitions=many)
    await asyncio.sleep(0)
    scene.append(b"b", index=3)
    assert acquired(await waiting) == [(0, 0, 1)]
    scene.logs.close()

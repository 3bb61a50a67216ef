from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.share import share_fetch
from ottla.broker.runtime.share.share_fetch import Buffer, FetchResult
from ottla.broker.share.acknowledgement import AcknowledgementBatch
from ottla.broker.share.settings import ShareSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import BatchHeader, split_batches
from tests.support.share_harness import KEY, LOCK_MS, ShareHarness, acquired
from tests.support.simulation import settle


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ShareHarness]:
    opened = ShareHarness(tmp_path / "data", partitions=2)
    yield opened
    opened.logs.close()


async def test_append_completes_the_share_fetch(harness: ShareHarness) -> None:
    waiting = harness.begin()
    harness.append(b"a")
    assert acquired(await waiting) == [(0, 0, 1)]
    assert (harness.fetches.waiting, harness.on_closed, harness.partition().watchers) == (0, {}, {})


async def test_share_fetch_ends_at_its_deadline(harness: ShareHarness) -> None:
    waiting = harness.begin()
    await asyncio.sleep(0)
    harness.advance(999)
    assert harness.fetches.waiting == 1
    harness.advance(1)
    assert acquired(await waiting) == []


async def test_a_fetch_waits_for_min_bytes(harness: ShareHarness) -> None:
    waiting = harness.begin(min_bytes=200)
    for _ in range(2):
        harness.append(b"x" * 50)
        await asyncio.sleep(0)
    assert acquired(await waiting) == [(0, 1, 1)]


async def test_one_of_two_waiting_members_acquires_the_record_and_the_other_keeps_waiting(harness: ShareHarness) -> None:
    first, second = harness.begin(member="m"), harness.begin(member="n")
    harness.append(b"a")
    assert acquired(await first) == [(0, 0, 1)]
    harness.append(b"b")
    assert acquired(await second) == [(1, 1, 1)]


async def test_acknowledgement_below_the_lock_limit_completes_a_waiting_share_fetch(tmp_path: Path) -> None:
    harness = ShareHarness(tmp_path / "full", settings=ShareSettings(partition_max_record_locks=1))
    harness.append(b"a")
    harness.append(b"b")
    assert acquired(harness.fetch(max_records=1)) == [(0, 0, 1)]
    waiting = harness.begin(member="n")
    harness.shares.acknowledge(KEY, "m", [AcknowledgementBatch(0, 0, [1])])
    assert acquired(await waiting) == [(1, 1, 1)]
    harness.logs.close()


async def test_expired_lock_completes_a_waiting_share_fetch(harness: ShareHarness) -> None:
    harness.append(b"a")
    harness.fetch()
    waiting = harness.begin(member="n", max_wait_ms=60_000)
    await asyncio.sleep(0)
    harness.advance(LOCK_MS)
    assert acquired(await waiting) == [(0, 0, 2)]


async def test_a_fetch_waits_until_the_share_partition_is_loaded(harness: ShareHarness) -> None:
    harness.append(b"a")
    harness.persister.holds_back = True
    waiting = harness.begin()
    await asyncio.sleep(0)
    harness.persister.holds_back = False
    harness.persister.complete_all()
    assert acquired(await waiting) == [(0, 0, 1)]


async def test_a_share_partition_that_cannot_be_loaded_is_answered_with_the_error(harness: ShareHarness) -> None:
    harness.persister.holds_back = True
    waiting = harness.begin()
    await asyncio.sleep(0)
    harness.persister.fail(ErrorCode.NOT_COORDINATOR)
    assert list((await waiting).values()) == [FetchResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_an_error_of_all_partitions_is_answered_at_once(harness: ShareHarness) -> None:
    harness.persister.refusal = Rejected(ErrorCode.GROUP_ID_NOT_FOUND)
    assert harness.fetch(max_wait_ms=1_000) == {key: FetchResult(ErrorCode.GROUP_ID_NOT_FOUND) for key in harness.keys(1)}


async def test_the_end_of_leadership_is_answered_with_an_error(harness: ShareHarness) -> None:
    waiting = harness.begin()
    await asyncio.sleep(0)
    harness.shares.on_resignation("t", 0, 1)
    assert [result.error for result in (await waiting).values()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_closed_connection_cancels_the_wait(harness: ShareHarness) -> None:
    waiting = harness.begin()
    await asyncio.sleep(0)
    for callback in list(harness.on_closed.values()):
        callback()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert harness.partition().watchers == {}


@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_resumed_fetch_acquires_nothing_if_its_connection_closes_before_it_reads(
    harness: ShareHarness, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    monkeypatch.setattr(limits, "FETCHED_AT_ONCE", 1)
    waiting = harness.begin(partitions=partitions)
    await settle()
    harness.append(b"a")
    harness.disconnect()
    await asyncio.wait([waiting])
    harness.is_closed = False
    assert acquired(harness.fetch("n")) == [(0, 0, 1)]


async def test_a_fetch_that_begins_after_its_connection_has_closed_acquires_nothing(harness: ShareHarness) -> None:
    harness.append(b"a")
    harness.disconnect()
    assert acquired(harness.fetch()) == []
    harness.is_closed = False
    assert acquired(harness.fetch("n")) == [(0, 0, 1)]


async def test_a_shutdown_answers_waiting_fetches(harness: ShareHarness) -> None:
    waiting = harness.begin()
    await asyncio.sleep(0)
    harness.fetches.release_all()
    assert acquired(await waiting) == []


def test_only_the_batches_of_acquired_records_are_sent(harness: ShareHarness) -> None:
    for _ in range(5):
        harness.append(b"a", b"b")
    (result,) = harness.results(max_records=3)
    assert [header.base_offset for _, header in split_batches(bytes(result.records))] == [0, 2]


def test_the_records_of_a_fetch_are_limited_over_all_partitions(harness: ShareHarness) -> None:
    for index in (0, 1):
        harness.append(b"a", index=index)
    assert [result.acquired for result in harness.results(partitions=2, max_records=1)] == [[(0, 0, 1)], ()]


def test_the_first_batch_is_sent_whole_however_small_max_bytes_is(harness: ShareHarness) -> None:
    harness.append(b"x" * 1_000)
    assert acquired(harness.fetch(max_bytes=10)) == [(0, 0, 1)]


def test_many_records_are_read_in_growing_steps(harness: ShareHarness) -> None:
    for _ in range(400):
        harness.append(b"x" * 1_000)
    assert acquired(harness.fetch(max_records=400)) == [(0, 399, 1)]


def test_a_fetch_below_the_logs_start_moves_the_start_offset(harness: ShareHarness) -> None:
    harness.append(b"a")
    harness.append(b"b")
    harness.shares.get(KEY)
    harness.partition().log.delete_records_before(1)
    assert acquired(harness.fetch()) == []
    assert acquired(harness.fetch()) == [(1, 1, 1)]


async def test_very_many_partitions_are_read_in_slices(tmp_path: Path) -> None:
    many = limits.FETCHED_AT_ONCE + 10
    harness = ShareHarness(tmp_path / "many", partitions=many)
    harness.append(b"a", index=many - 1)
    assert acquired(await harness.begin(partitions=many)) == [(0, 0, 1)]
    waiting = harness.begin(partitions=many)
    await asyncio.sleep(0)
    harness.append(b"b", index=3)
    assert acquired(await waiting) == [(0, 0, 1)]
    harness.logs.close()


# --- fetches that ask for very much ----------------------------------------------------------------------------------------------

ALL = 2**31 - 1


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offsets of the batches that share fetches have parsed."""
    offsets: list[int] = []

    def counting(records: Buffer) -> Iterator[tuple[int, BatchHeader]]:
        for position, header in split_batches(records):
            offsets.append(header.base_offset)
            yield position, header

    monkeypatch.setattr(share_fetch, "split_batches", counting)
    return offsets


def test_no_more_batches_are_parsed_than_record_locks_are_left(tmp_path: Path, parsed: list[int]) -> None:
    harness = ShareHarness(tmp_path / "locks", settings=ShareSettings(partition_max_record_locks=10))
    for _ in range(100):
        harness.append(b"a")
    assert acquired(harness.fetch(max_records=4)) == [(0, 3, 1)]
    parsed.clear()
    assert acquired(harness.fetch(max_records=ALL, max_bytes=55 * limits.MIB, min_bytes=55 * limits.MIB)) == [(4, 9, 1)]
    assert max(parsed) <= 10
    harness.advance(LOCK_MS)
    parsed.clear()
    assert acquired(harness.fetch(max_records=ALL, batch_size=1)) == [(0, 3, 2), (4, 9, 2)]
    assert max(parsed) <= 10
    harness.logs.close()


def test_records_whose_locks_expired_are_acquired_together_although_fewer_locks_are_allowed_now(tmp_path: Path) -> None:
    harness = ShareHarness(tmp_path / "fewer", settings=ShareSettings(partition_max_record_locks=20))
    for _ in range(20):
        harness.append(b"a")
    assert acquired(harness.fetch(max_records=20)) == [(0, 19, 1)]
    harness.settings = ShareSettings(partition_max_record_locks=5)
    harness.advance(LOCK_MS)
    assert sum(last - first + 1 for first, last, _ in acquired(harness.fetch(max_records=20))) == 20
    harness.logs.close()


def test_batches_are_parsed_once_although_the_read_grows(harness: ShareHarness, parsed: list[int]) -> None:
    for _ in range(400):
        harness.append(b"x" * 1_000)
    assert acquired(harness.fetch(max_records=400)) == [(0, 399, 1)]
    assert parsed == list(range(400))


async def test_a_fetch_parses_no_batch_while_it_waits(harness: ShareHarness, parsed: list[int]) -> None:
    waiting = harness.begin(min_bytes=10_000)
    for _ in range(5):
        harness.append(b"x")
        await asyncio.sleep(0)
    assert (harness.fetches.waiting, parsed) == (1, [])
    harness.advance(1_000)
    assert acquired(await waiting) == [(0, 4, 1)]


async def test_another_member_fetches_between_two_partitions_of_a_large_fetch(
    tmp_path: Path, parsed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_fetch, "BATCHES_AT_ONCE", 1)
    monkeypatch.setattr(limits, "SLICE_NS", 0)
    harness = ShareHarness(tmp_path / "turns", partitions=4)
    for index in range(4):
        harness.append(b"a", index=index)
    large = harness.fetch(partitions=4, max_records=ALL)
    assert len(parsed) == 1
    assert acquired(harness.fetch("n", partitions=harness.keys(4)[3:])) == [(0, 0, 1)]
    assert isinstance(large, Awaitable)
    assert [result.acquired for result in (await large).values()] == [[(0, 0, 1)]] * 3 + [()]
    assert harness.on_closed == {}
    harness.logs.close()


async def test_a_large_fetch_acquires_nothing_more_when_the_connection_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_fetch, "BATCHES_AT_ONCE", 1)
    harness = ShareHarness(tmp_path / "closed", partitions=2)
    for index in range(2):
        harness.append(b"a", index=index)
    large = harness.fetch(partitions=2)
    for callback in list(harness.on_closed.values()):
        callback()
    assert isinstance(large, Awaitable)
    with pytest.raises(asyncio.CancelledError):
        await large
    assert [harness.shares.get(KEY._replace(partition=index)).state.in_flight_count for index in range(2)] == [1, 0]
    harness.logs.close()


def test_a_large_batch_is_read_also_behind_another_partition(harness: ShareHarness) -> None:
    harness.append(b"a")
    harness.append(b"x" * 200_000, index=1)
    assert acquired(harness.fetch(partitions=2)) == [(0, 0, 1)] * 2

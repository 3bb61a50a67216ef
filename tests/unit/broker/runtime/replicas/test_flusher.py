from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.storage.files import Files
from tests.support.partition_logs import PartitionHarness, one_batch


class CountingDisk(Files):
    def __init__(self) -> None:
        self.threads: set[str] = set()
        self.fail = False

    def fsync(self, fd: int) -> None:
        self.threads.add(threading.current_thread().name)
        if self.fail:
            raise OSError(5, "Input/output error")
        super().fsync(fd)


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
def harness(tmp_path: Path, disk: CountingDisk) -> Iterator[PartitionHarness]:
    opened = PartitionHarness(tmp_path / "data", VirtualClock(), files=disk)
    yield opened
    disk.fail = False
    opened.close()


async def test_flush_runs_on_a_thread_advances_the_recovery_point_and_returns_the_offset(
    harness: PartitionHarness, disk: CountingDisk
) -> None:
    partition = harness.partitions.get("t", 0)
    partition.append(one_batch(b"a", b"b"))
    disk.threads.clear()
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    harness.flusher.flush(partition.log, done.set_result)
    assert await asyncio.wait_for(done, 60) == 2
    assert partition.log.recovery_point == 2
    assert disk.threads
    assert all(name.startswith("flush") for name in disk.threads)


async def test_two_failed_flushes_are_reported_once_and_never_complete(harness: PartitionHarness, disk: CountingDisk) -> None:
    partition = harness.partitions.get("t", 0)
    partition.append(one_batch())
    disk.fail = True
    done: list[int] = []
    for _ in range(2):
        harness.flusher.flush(partition.log, done.append)
    async with asyncio.timeout(5):
        while not harness.failures:  # noqa: ASYNC110 # reported by a callback
            await asyncio.sleep(0)
    harness.flusher.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert (done, len(harness.failures), partition.log.recovery_point) == ([], 1, 0)


async def test_blocking_work_runs_on_the_flush_threads_and_raises_its_errors(harness: PartitionHarness) -> None:
    assert (await harness.flusher.run(lambda: threading.current_thread().name)).startswith("flush")
    with pytest.raises(ZeroDivisionError):
        await harness.flusher.run(lambda: 1 // 0)


async def test_bug_in_a_flush_callback_is_reported_as_a_failed_sync(harness: PartitionHarness) -> None:
    partition = harness.partitions.get("t", 0)
    partition.append(one_batch())
    harness.flusher.flush(partition.log, lambda _: 1 // 0)
    async with asyncio.timeout(5):
        while not harness.failures:  # noqa: ASYNC110 # reported by a callback
            await asyncio.sleep(0)
    assert [type(failure) for failure in harness.failures] == [ZeroDivisionError]

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.leadership import Registration
from ottla.broker.runtime.replicas.partition import ClusterContext, Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.background import Background
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.broker.storage.files import FILES, Files
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.partition_logs import PartitionHarness, one_batch
from tests.support.simulation import settle


class WatchedFiles(Files):
    """Files that record which threads wait for the disk."""

    def __init__(self) -> None:
        self.syncing: list[str] = []

    def fsync(self, fd: int) -> None:
        self.syncing.append(threading.current_thread().name)
        super().fsync(fd)


class Harness:
    def __init__(
        self, path: Path, config: LogConfig, files: Files = FILES, partitions: int = 2, context: ClusterContext | None = None
    ) -> None:
        self.path = path
        self.clock, self.timers = VirtualClock(), Timers()
        self.clock.advance(1)
        self.logs = PartitionHarness(path, self.clock, config, partitions=partitions, files=files, context=context)
        logs = self.logs
        nursery = Nursery(self.timers, self.clock, logs.failures.append)
        Background(
            nursery, Turns(self.clock), BrokerSettings(), log_dir=logs.log_dir, partitions=logs.partitions, flusher=logs.flusher
        ).start()
        self.jobs = len(self.timers)

    def append(self, partition: int = 0, *, age_ms: int = 0) -> None:
        self.logs.partitions.get("t", partition).append(one_batch(timestamp=self.clock.now_ms() - age_ms))

    async def advance(self, ms: int, step: int = 500) -> None:
        for _ in range(ms // step):
            self.clock.advance(step)
            self.timers.run_due(self.clock.mono_ms())
            await settle(10)

    async def settled(self) -> None:
        """Wait until no job waits for a thread, and each has its next timer."""
        async with asyncio.timeout(5):
            while len(self.timers) < self.jobs:  # noqa: ASYNC110 # moved by a callback of a thread's work
                await asyncio.sleep(0)

    async def synced(self, offset: int) -> None:
        async with asyncio.timeout(5):
            while self.logs.partitions.get("t", 0).log.recovery_point < offset:  # noqa: ASYNC110 # moved by a callback of a thread's work
                await asyncio.sleep(0)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    opened = Harness(tmp_path / "data", LogConfig(segment_bytes=200, retention_ms=3_600_000, file_delete_delay_ms=60_000, flush_ms=2_000))
    yield opened
    opened.logs.close()


async def test_retention_runs_after_30_seconds_and_files_are_deleted_after_their_delay(harness: Harness) -> None:
    for _ in range(5):
        harness.append(age_ms=7_200_000)
    log = harness.logs.partitions.get("t", 0).log
    await harness.advance(29_000)
    assert log.log_start_offset == 0
    await harness.advance(2_000)
    assert log.log_start_offset == 5
    assert list(log.directory.glob("*.deleted"))
    await harness.advance(58_000)
    assert list(log.directory.glob("*.deleted"))
    async with asyncio.timeout(5):
        while list(log.directory.glob("*.deleted")):
            await harness.advance(500)
            await asyncio.sleep(0)


class RemovalFiles(Files):
    """Files that record which threads remove files; one removal fails."""

    def __init__(self) -> None:
        self.removing: set[str] = set()

    def remove(self, path: Path) -> None:
        self.removing.add(threading.current_thread().name)
        if path.name == f"{0:020d}.log.deleted":
            raise OSError(5, "Input/output error")
        super().remove(path)


async def test_deleting_files_does_not_block_the_loop_and_one_failure_stops_no_other(tmp_path: Path) -> None:
    files = RemovalFiles()
    harness = Harness(tmp_path / "data", LogConfig(segment_bytes=200, retention_ms=1, file_delete_delay_ms=1_000), files)
    for partition in (0, 1):
        for _ in range(3):
            harness.append(partition, age_ms=7_200_000)
    await harness.advance(31_000)
    logs = [harness.logs.partitions.get("t", partition).log for partition in (0, 1)]
    assert all(list(log.directory.glob("*.deleted")) for log in logs)
    files.removing.clear()
    async with asyncio.timeout(5):
        while any(len(list(log.directory.glob("*.deleted"))) > 1 for log in logs):
            await harness.advance(500)
            await asyncio.sleep(0)
    await harness.settled()
    assert all(name.startswith("flush") for name in files.removing)
    harness.logs.close()


async def test_high_watermarks_are_on_disk_within_5_seconds(harness: Harness) -> None:
    harness.append()
    await harness.advance(5_500)
    await harness.settled()
    assert "t 0 1\n" in (harness.path / "replication-offset-checkpoint").read_text()


async def test_writing_a_checkpoint_does_not_block_the_loop(tmp_path: Path) -> None:
    files = WatchedFiles()
    harness = Harness(tmp_path / "data", LogConfig(), files)
    files.syncing.clear()
    harness.append()
    await harness.advance(5_500)
    await harness.settled()
    await harness.advance(60_000)
    await harness.settled()
    await harness.synced(1)
    await harness.advance(60_000)
    await harness.settled()
    assert "t 0 1\n" in (harness.path / "recovery-point-offset-checkpoint").read_text()
    assert all(name.startswith("flush") for name in files.syncing)
    assert len(files.syncing) >= 5
    harness.logs.close()


async def test_recovery_points_are_on_disk_within_two_minutes_of_an_append(harness: Harness) -> None:
    harness.append(1)
    await harness.advance(60_500)
    await harness.settled()
    async with asyncio.timeout(5):
        while harness.logs.partitions.get("t", 1).log.recovery_point < 1:  # noqa: ASYNC110 # as above
            await asyncio.sleep(0)
    await harness.advance(60_500)
    await harness.settled()
    assert "t 1 1\n" in (harness.path / "recovery-point-offset-checkpoint").read_text()


async def test_the_cleaners_offset_of_a_truncated_log_is_on_disk_within_a_minute(harness: Harness) -> None:
    for _ in range(5):
        harness.append()
    log_dir, log = harness.logs.log_dir, harness.logs.partitions.get("t", 0).log
    log_dir.first_dirty_offsets["t", 0] = log.segments.active.base_offset
    log_dir.cleaner_checkpoint()()
    log.truncate_to(0, harness.clock.now_ms())
    await harness.advance(60_500)
    await harness.settled()
    assert "t 0 0\n" in (harness.path / "cleaner-offset-checkpoint").read_text()


class CountingFiles(Files):
    """Files that count the descriptors that syncs hold."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.most = 0

    def dup(self, fd: int) -> int:
        copy = super().dup(fd)
        self.held.add(copy)
        self.most = max(self.most, len(self.held))
        return copy

    def close(self, fd: int) -> None:
        self.held.discard(fd)
        super().close(fd)


async def test_syncs_before_a_checkpoint_use_few_descriptors(tmp_path: Path) -> None:
    files = CountingFiles()
    harness = Harness(tmp_path / "data", LogConfig(), files, partitions=40)
    for partition in range(40):
        harness.append(partition)
    await harness.advance(60_500)
    async with asyncio.timeout(5):
        while harness.logs.flusher.syncs < 40:
            await harness.advance(500)
            await asyncio.sleep(0)
    assert files.most <= limits.FLUSH_THREADS + 1
    harness.logs.close()


async def test_a_log_is_synced_when_its_flush_ms_has_passed(harness: Harness) -> None:
    harness.append()
    await harness.advance(1_500)
    assert harness.logs.flusher.syncs == 0
    await harness.advance(1_000)
    await harness.synced(1)


async def test_an_offline_partition_does_not_stop_the_work_of_others(harness: Harness) -> None:
    for partition in (0, 1):
        for _ in range(3):
            harness.append(partition, age_ms=7_200_000)
    harness.logs.partitions.get("t", 0).log.failure = OSError("gone")
    await harness.advance(31_000)
    assert harness.logs.partitions.get("t", 1).log.log_start_offset == 3


async def test_a_bug_in_one_partition_does_not_stop_the_work_of_others(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logs = [harness.logs.partitions.get("t", partition).log for partition in (0, 1)]
    for partition in (0, 1):
        harness.append(partition, age_ms=7_200_000)
    monkeypatch.setattr(logs[0], "apply_retention", lambda _: 1 // 0)
    await harness.advance(31_000)
    await harness.advance(300_000)
    assert [log.log_start_offset for log in logs] == [0, 1]
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [ZeroDivisionError]
    monkeypatch.undo()
    await harness.advance(300_000)
    assert [log.log_start_offset for log in logs] == [1, 1]


async def test_lagging_replicas_are_checked_every_half_replica_lag_time_max_ms(tmp_path: Path) -> None:
    proposed: list[Partition] = []
    context = ClusterContext(Brokers(), proposed.append, lambda *_: True, 30_000)
    harness = Harness(tmp_path / "data", LogConfig(), context=context)
    partition = harness.logs.partitions.get("t", 0)
    partition.lead(Registration(1, (1, 2), (1, 2), 1, 1))
    harness.append()
    await harness.advance(30_000)
    assert proposed == []
    await harness.advance(15_000)
    assert proposed == [partition]
    harness.logs.close()


async def test_frequent_jobs_visit_only_partitions_with_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(tmp_path / "data", LogConfig(flush_ms=2_000), partitions=5)
    walks: list[object] = []
    walk = Partitions.__iter__
    monkeypatch.setattr(Partitions, "__iter__", lambda self: walks.append(self) or walk(self))  # type: ignore[func-returns-value]  # append gives None, and that is meant
    harness.append(3)
    await harness.advance(10_000, step=100)
    assert walks == []
    async with asyncio.timeout(5):
        while harness.logs.partitions.get("t", 3).log.recovery_point < 1:  # noqa: ASYNC110 # moved by a callback of a thread's work
            await asyncio.sleep(0)
    harness.append(3)
    assert harness.logs.partitions.awaiting_flush == {harness.logs.partitions.get("t", 3)}
    harness.logs.partitions.remove("t", 3)
    assert not harness.logs.partitions.awaiting_flush
    harness.logs.close()


async def test_all_logs_that_need_it_are_compacted_at_one_time_of_the_cleaner(tmp_path: Path) -> None:
    harness = Harness(
        tmp_path / "data", LogConfig(segment_bytes=200, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.1), partitions=4
    )
    logs = [harness.logs.partitions.get("t", index).log for index in range(4)]
    for index in range(4):
        for _ in range(9):
            harness.logs.partitions.get("t", index).append(build_batch([SimpleRecord(b"key", b"x", harness.clock.now_ms())]))
    before = [log.size_bytes for log in logs]
    await harness.advance(BrokerSettings().log_cleaner_backoff_ms)
    await harness.settled()
    assert all(log.size_bytes < size for log, size in zip(logs, before, strict=True))
    harness.logs.close()

"""Flushing a partition's log, and disk errors at every call."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.errors import FsyncFailed
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.producer_state import Origin
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import split_batches
from tests.support.logs import NOW_MS, LogHarness, batch, marker, producers, run_due_deletions

BATCH = len(batch())
"""Bytes of a batch with one record."""


@pytest.fixture
def harness(tmp_path: Path) -> LogHarness:
    return LogHarness(tmp_path / "topic-0")


def memory_harness(config: LogConfig | None = None) -> tuple[LogHarness, MemoryFiles]:
    files = MemoryFiles()
    return LogHarness(Path("/data/topic-0"), config or LogConfig(), files), files


def read(harness: LogHarness, offset: int) -> list[int]:
    """Return the base offsets of the whole batches that one read returns."""
    records = harness.log.read(offset, 1 << 20, isolation=Isolation.READ_UNCOMMITTED, min_one_batch=True).records
    return [h.base_offset for _, h in split_batches(records)]


def code_of(caught: pytest.ExceptionInfo[Rejected]) -> ErrorCode:
    return caught.value.code


# --- a disk that refuses ----------------------------------------------------------------------------------------------------------


def test_full_disk_at_any_byte_rejects_the_batch_and_leaves_no_part_of_it() -> None:
    harness, files = memory_harness()
    harness.append(batch(7, 0, 0))
    for room in range(BATCH):
        files.room = room
        with pytest.raises(Rejected) as caught:
            harness.append(batch(7, 0, 1))
        assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR
        assert len(files.read_bytes(harness.file(".log"))) == BATCH
        assert read(harness, 0) == [0]
    files.room = None
    assert harness.append(batch(7, 0, 1)).first_offset == 1
    harness.crash()
    assert harness.findings == []


def written(harness: LogHarness, sequence: int) -> bool:
    try:
        harness.append(batch(7, 0, sequence))
    except Rejected as e:
        if e.code is ErrorCode.KAFKA_STORAGE_ERROR:
            return False
        raise
    return True


def test_failed_disk_call_never_loses_or_duplicates_an_acknowledged_batch() -> None:
    config = LogConfig(segment_bytes=3 * BATCH, index_interval_bytes=0)
    failures = 0
    for failing_call in range(60):
        harness, files = memory_harness(config)
        calls = 0

        def fail(operation: str, path: Path, failing_call: int = failing_call) -> None:
            nonlocal calls, failures
            if operation in {"write", "create", "rename", "truncate", "open"}:
                calls += 1
                if calls - 1 == failing_call:
                    failures += 1
                    raise OSError(errno.EIO, "failed here", str(path))

        files.on_call = fail
        for sequence in range(10):
            if not written(harness, sequence):
                assert written(harness, sequence), "one failure cost two appends"
        files.heal()
        harness.crash()
        assert [h.base_sequence for h in harness.headers()] == list(range(10))
        assert harness.findings == []
    assert failures >= 20


def test_retention_frees_a_full_disk_if_everything_is_expired() -> None:
    harness, files = memory_harness(LogConfig(segment_bytes=2 * BATCH, retention_ms=1))
    for sequence in range(7):
        harness.append(batch(7, 0, sequence))
    files.room = 0
    with pytest.raises(Rejected):  # the leader epochs cannot be written; they are at the next start
        harness.log.apply_retention(NOW_MS + 1000)
    run_due_deletions(harness.log, NOW_MS + 10**9)
    assert (harness.log.log_start_offset, harness.log.size_bytes) == (6, BATCH)
    assert files.exists(harness.file(".log", 6))
    assert not files.exists(harness.file(".log", 0))
    files.room = None
    assert harness.log.apply_retention(NOW_MS + 1000) == BATCH
    assert harness.append(batch(7, 0, 7)).first_offset == harness.log.log_start_offset == 7


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_a_failed_roll_leaves_no_segment_for_a_restart(suffix: str) -> None:
    harness, files = memory_harness(LogConfig(segment_bytes=4 * BATCH))
    for sequence in range(3):
        harness.append(batch(7, 0, sequence))

    def fail(operation: str, path: Path) -> None:
        if operation == "create" and path == harness.file(suffix, 3):
            raise OSError(errno.ENOSPC, "failed here", str(path))

    files.on_call = fail
    with pytest.raises(Rejected):
        harness.append(batch(8, 0, 0, size=2 * BATCH))
    harness.append(batch(7, 0, 3))
    files.heal()
    harness.restart()
    assert (harness.findings, harness.log.log_end_offset, len(harness.headers())) == ([], 4, 4)


def test_a_failed_roll_that_cannot_be_reverted_takes_the_log_offline() -> None:
    harness, files = memory_harness(LogConfig(segment_bytes=4 * BATCH))
    for sequence in range(3):
        harness.append(batch(7, 0, sequence))

    def fail(operation: str, path: Path) -> None:
        if path == harness.file(".index", 3) or operation == "remove":
            raise OSError(errno.EIO, "failed here", str(path))

    files.on_call = fail
    for size in (2 * BATCH, 10):
        with pytest.raises(Rejected) as caught:
            harness.append(batch(8, 0, 0, size=size))
        assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR
    files.heal()
    harness.crash()
    assert harness.append(batch(7, 0, 3)).first_offset == 3


def test_a_batch_with_a_failed_index_entry_is_not_written() -> None:
    harness, files = memory_harness(LogConfig(index_interval_bytes=BATCH))

    def fail(operation: str, path: Path) -> None:
        if path.suffix in {".index", ".timeindex"}:
            raise OSError(errno.EMFILE, "failed here", str(path))

    refused = 0
    for sequence in range(10):
        harness.log.flush()
        harness.log.segments.active.release()
        files.on_call = fail
        if not written(harness, sequence):
            refused += 1
            files.heal()
            assert written(harness, sequence)
        files.heal()
    assert refused > 2
    harness.crash()
    assert [(h.base_offset, h.base_sequence) for h in harness.headers()] == [(i, i) for i in range(10)]
    assert harness.findings == []


def test_an_abort_whose_index_cannot_be_read_is_not_written() -> None:
    harness, files = memory_harness()
    harness.append(batch(7, 0, 0, transactional=True))
    harness.log.flush()
    harness.log.segments.active.release()

    def fail(operation: str, path: Path) -> None:
        if path.suffix == ".txnindex":
            raise OSError(errno.EMFILE, "failed here", str(path))

    files.on_call = fail
    with pytest.raises(Rejected) as caught:
        harness.append(marker(7, 0, committed=False), origin=Origin.COORDINATOR)
    assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR
    files.heal()
    harness.append(marker(7, 0, committed=False), origin=Origin.COORDINATOR)
    assert harness.log.log_end_offset == 2
    assert harness.log.read(0, 1000, isolation=Isolation.READ_COMMITTED).aborted == [(7, 0)]


def stamped_at(offset: int) -> bytes:
    """Return a batch as a leader has stored it at `offset`."""
    data = bytearray(batch())
    data[:8] = offset.to_bytes(8, "big")
    return bytes(data)


def test_a_partial_write_that_cannot_be_truncated_takes_the_log_offline() -> None:
    harness, files = memory_harness()
    harness.append(batch())

    def fail(operation: str, path: Path) -> None:
        if operation == "truncate":
            raise OSError(errno.EIO, "failed here", str(path))

    files.on_call, files.room = fail, 5
    with pytest.raises(Rejected):
        harness.append(batch())
    files.heal()
    calls = (
        lambda: harness.append(batch()),
        lambda: harness.append(stamped_at(1), origin=Origin.REPLICATION),
        lambda: read(harness, 0),
        lambda: harness.log.offset_for_timestamp(-1),
    )
    for call in calls:
        with pytest.raises(Rejected) as caught:
            call()
        assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR
    harness.crash()
    assert harness.findings[0].bytes_dropped == 5
    assert harness.append(batch()).first_offset == 1


def test_a_failed_read_is_a_storage_error() -> None:
    harness, files = memory_harness()
    harness.append(batch())

    def fail(operation: str, path: Path) -> None:
        raise OSError(errno.EIO, "failed here", str(path))

    files.on_call = fail
    with pytest.raises(Rejected) as caught:
        read(harness, 0)
    assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR


# --- flushing ----------------------------------------------------------------------------------------------------------------------


def test_the_recovery_point_moves_only_when_the_sync_is_done(harness: LogHarness) -> None:
    harness.append(batch())
    caller = harness.log.flush_begin()
    harness.append(batch())
    assert harness.log.recovery_point == 0
    caller.sync()
    assert harness.log.recovery_point == 0
    harness.log.flush_end(caller)
    assert harness.log.recovery_point == 1


def test_a_failed_sync_raises_and_keeps_the_recovery_point() -> None:
    harness, files = memory_harness()
    harness.append(batch())
    caller = harness.log.flush_begin()

    def fail(operation: str, path: Path) -> None:
        if operation == "fsync":
            raise OSError(errno.EIO, "failed here", str(path))

    files.on_call = fail
    with pytest.raises(FsyncFailed, match="failed here"):
        caller.sync()
    assert harness.log.recovery_point == 0


def test_a_truncation_during_a_sync_keeps_the_recovery_point_back(harness: LogHarness) -> None:
    for _ in range(4):
        harness.append(batch())
    caller = harness.log.flush_begin()
    harness.log.truncate_to(1, NOW_MS)
    for _ in range(5):
        harness.append(batch())
    caller.sync()
    harness.log.flush_end(caller)
    assert harness.log.recovery_point == 0


def test_a_sync_survives_the_deletion_of_its_file(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=2 * BATCH, retention_bytes=0, file_delete_delay_ms=0))
    for _ in range(7):
        harness.append(batch())
    caller = harness.log.flush_begin()
    harness.log.apply_retention(NOW_MS)
    run_due_deletions(harness.log, NOW_MS)
    caller.sync()
    harness.log.flush_end(caller)
    assert harness.log.recovery_point == 7


def test_a_leader_epoch_that_a_full_disk_refused_is_written_with_its_first_batch() -> None:
    harness, files = memory_harness()
    harness.append(batch())
    files.room = 0
    with pytest.raises(Rejected):
        harness.log.append(batch(), origin=Origin.CLIENT, leader_epoch=1, now_ms=NOW_MS)
    files.heal()
    harness.log.append(batch(), origin=Origin.CLIENT, leader_epoch=1, now_ms=NOW_MS)
    harness.restart()
    assert harness.log.epochs.entries == ((0, 0), (1, 1))


def test_a_full_disk_during_a_flush_keeps_the_recovery_point_back_but_syncs_the_data() -> None:
    harness, files = memory_harness(LogConfig(index_interval_bytes=0))
    for _ in range(3):
        harness.append(batch())
    files.room = 0
    harness.log.flush()
    assert harness.log.recovery_point == 0
    files.power_loss()
    files.heal()
    harness.open(clean=False)
    assert harness.log.log_end_offset == 3


@pytest.mark.parametrize("is_full_at_first", [False, True])
def test_a_synced_segments_first_aborted_transaction_survives_a_power_loss(is_full_at_first: bool) -> None:
    harness, files = memory_harness(LogConfig(index_interval_bytes=0))
    harness.append(batch(7, 0, 0, transactional=True))
    harness.log.flush()
    harness.append(marker(7, 0, committed=False), origin=Origin.COORDINATOR)
    for _ in range(3):
        harness.append(batch())
    if is_full_at_first:
        files.room = 0
        harness.log.flush()
        files.room = None
    harness.log.flush()
    recovery_point = harness.log.recovery_point
    files.power_loss()
    harness.open(clean=False, recovery_point=recovery_point)
    assert (recovery_point, harness.log.log_end_offset) == (5, 5)
    assert harness.log.read(0, 1000, isolation=Isolation.READ_COMMITTED).aborted == [(7, 0)]


def test_the_greatest_timestamp_of_a_segment_that_was_rolled_after_a_flush_survives_a_power_loss() -> None:
    harness, files = memory_harness()
    harness.append(batch())
    harness.log.flush()
    harness.log.roll(NOW_MS)
    harness.append(batch(timestamp=NOW_MS - 1))
    harness.log.flush()
    files.power_loss()
    harness.open(clean=False, recovery_point=2)
    assert harness.log.offset_for_timestamp(NOW_MS).offset == 0


def test_the_leader_epochs_of_flushed_batches_survive_a_power_loss() -> None:
    """A restart does not read them from the batches. With another start offset of an epoch, followers would not truncate their logs."""
    harness, files = memory_harness(LogConfig(index_interval_bytes=0))
    harness.append(batch())
    harness.log.flush()
    for _ in range(3):
        harness.log.append(batch(), origin=Origin.CLIENT, leader_epoch=1, now_ms=NOW_MS)
    harness.log.flush()
    files.power_loss()
    harness.open(clean=False, recovery_point=4)
    assert harness.log.epochs.entries == ((0, 0), (1, 1))


def test_segments_that_a_truncation_removed_before_a_flush_do_not_return_after_a_power_loss() -> None:
    harness, files = memory_harness(LogConfig(segment_bytes=2 * BATCH))
    for _ in range(4):
        harness.append(batch())
    harness.log.flush()
    harness.log.truncate_to(1, NOW_MS)
    harness.append(batch())
    harness.log.flush()
    files.power_loss()
    harness.open(clean=False, recovery_point=2)
    assert harness.log.log_end_offset == 2


def test_a_flush_after_much_data_saves_the_producers_too(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.storage.partition_log.SNAPSHOT_EVERY_BYTES", 2 * BATCH)
    for i in range(6):
        harness.append(batch(7, 0, i))
        harness.log.flush()
    assert [p.name for p in harness.directory.glob("*.snapshot")] == [f"{6:020d}.snapshot"]
    harness.crash()
    assert producers(harness.log)[7][:2] == (0, 5)

from __future__ import annotations

import pytest

from ottla.broker.cluster.snapshots import SnapshotId
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.raft_log import MetadataRetention, RaftLog
from ottla.protocol.records.errors import RecordsError
from tests.support.raft_logs import DIRECTORY, NOW_MS, batches, open_metadata_log, put_snapshot

SMALL_SEGMENTS = LogConfig(retention_ms=-1, retention_bytes=-1, segment_bytes=300)


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def opened(files: MemoryFiles, retention: MetadataRetention | None = None, config: LogConfig | None = None) -> RaftLog:
    return RaftLog(open_metadata_log(files, config), retention, now_ms=NOW_MS)


def filled(files: MemoryFiles, count: int = 10, retention: MetadataRetention | None = None) -> RaftLog:
    """Return a metadata log with `count` committed records of epoch 1, three in each segment."""
    log = opened(files, retention, SMALL_SEGMENTS)
    log.append(batches(0, count), 1, NOW_MS)
    log.log.advance_high_watermark(count)
    return log


def test_batches_are_appended_up_to_a_later_epoch_or_a_partial_batch(files: MemoryFiles) -> None:
    log = opened(files)
    log.append(batches(0, 2) + batches(2, 3, epoch=9) + batches(3, 4), 5, NOW_MS)
    log.append(batches(2, 3) + batches(3, 4)[:-1], 5, NOW_MS)
    log.append(b"", 5, NOW_MS)
    log.log.advance_high_watermark(3)
    assert log.committed(0) == batches(0, 3)
    assert (log.end_offset, log.last_epoch, log.committed(3)) == (3, 1, b"")


@pytest.mark.parametrize("data", [batches(0, 1), batches(1, 2)[:-1] + b"\xff"], ids=["it was there", "damaged"])
def test_a_batch_that_does_not_follow_the_log_is_refused(files: MemoryFiles, data: bytes) -> None:
    log = filled(files, 1)
    with pytest.raises((Rejected, RecordsError)):
        log.append(data, 1, NOW_MS)
    assert log.end_offset == 1


def test_an_unknown_epoch_ends_at_the_log_end(files: MemoryFiles) -> None:
    log = opened(files)
    assert (log.last_epoch, log.end_offset_for_epoch(3)) == (0, (0, 0))
    log.append(batches(0, 4, epoch=2) + batches(4, 6, epoch=5), 5, NOW_MS)
    assert [log.end_offset_for_epoch(epoch) for epoch in (2, 3, 5, 7)] == [(2, 4), (2, 4), (5, 6), (5, 6)]


@pytest.mark.parametrize("restart", [False, True], ids=["now", "at the next start, after a crash"])
def test_a_snapshot_beyond_the_log_replaces_it(files: MemoryFiles, restart: bool) -> None:
    log = filled(files)
    put_snapshot(log, SnapshotId(5, 1))
    assert not log.restart_at_newest_snapshot(NOW_MS)
    newest = SnapshotId(30, 4)
    put_snapshot(log, newest)
    if restart:
        log = opened(files)
    else:
        assert log.restart_at_newest_snapshot(NOW_MS)
    assert (log.start_offset, log.end_offset, log.high_watermark, log.last_epoch) == (30, 30, 30, 4)
    assert log.snapshots.ids == [newest]
    log.append(batches(30, 31, epoch=4), 4, NOW_MS)
    assert (log.end_offset, log.last_epoch, log.has_snapshot(newest)) == (31, 4, True)


def test_a_snapshots_content_is_committed(files: MemoryFiles) -> None:
    log = filled(files)
    put_snapshot(log, SnapshotId(5, 1))
    assert opened(files).high_watermark == 5


def test_a_log_without_its_beginning_is_refused(files: MemoryFiles) -> None:
    log = filled(files)
    put_snapshot(log, SnapshotId(6, 1))
    put_snapshot(log, SnapshotId(9, 1))
    log.log.delete_records_before(9)
    log.log.apply_retention(NOW_MS)
    files.remove(log.snapshots.path(SnapshotId(9, 1)))
    with pytest.raises(LogDirRefused, match="has no snapshot"):
        opened(files)


@pytest.mark.parametrize(
    ("retention", "kept", "start"),
    [
        (MetadataRetention(-1, -1), [4, 7, 10], 0),
        (MetadataRetention(1_550, -1), [7, 10], 7),
        (MetadataRetention(1, -1), [10], 10),
        (MetadataRetention(-1, 2_500), [7, 10], 7),
        (MetadataRetention(-1, 0), [10], 10),
    ],
)
def test_retention_removes_the_oldest_snapshots_and_the_log_below_the_next(
    files: MemoryFiles, retention: MetadataRetention, kept: list[int], start: int
) -> None:
    log = filled(files, retention=retention)
    for end in (4, 7, 10):
        put_snapshot(log, SnapshotId(end, 1), NOW_MS + 1_000 * end // 3)
    assert log.clean(NOW_MS + 4_000) == (len(kept) < 3)
    assert [snapshot.end_offset for snapshot in log.snapshots.ids] == kept
    assert log.start_offset == start
    assert not log.clean(NOW_MS + 4_000)
    reopened = opened(files)
    assert reopened.end_offset == 10
    assert reopened.start_offset <= start


def test_retired_files_are_deleted_a_minute_later(files: MemoryFiles) -> None:
    log = filled(files, retention=MetadataRetention(-1, 0))
    for end in (7, 10):
        put_snapshot(log, SnapshotId(end, 1))
    log.clean(NOW_MS + 10)
    assert [entry.name for entry in files.scan(DIRECTORY) if entry.name.endswith(".deleted")] != []
    assert list(log.due_deletions(NOW_MS + 50_000)) == []
    for remove in log.due_deletions(NOW_MS + 70_000):
        remove()
    assert [entry.name for entry in files.scan(DIRECTORY) if entry.name.endswith(".deleted")] == []

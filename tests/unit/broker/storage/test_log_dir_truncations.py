"""The checkpoints of a data directory whose logs were truncated: a restart must not take new records for old ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.producer_state import Origin
from tests.support.logs import NOW_MS, TOPIC_ID, batch


def opened(path: Path, files: Files = FILES) -> LogDir:
    return LogDir.open(path, BrokerSettings(), NOW_MS, files=files)


def append(log: PartitionLog) -> None:
    log.append(batch(), origin=Origin.CLIENT, leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


def truncated(path: Path, files: Files = FILES) -> LogDir:
    """Return a directory whose log `topic-0`, with segments at 0 and 8, was synced, compacted and checkpointed up to offset 8, and then
    truncated to offset 2."""
    log_dir = opened(path, files)
    log = log_dir.create_log("topic", 0, TOPIC_ID, LogConfig(index_interval_bytes=1))
    for _ in range(8):
        append(log)
    log.roll(NOW_MS)
    log.flush()
    log_dir.first_dirty_offsets["topic", 0] = 8
    log_dir.recovery_point_checkpoint()()
    log_dir.cleaner_checkpoint()()
    assert log_dir.truncation_checkpoint() is None
    log.truncate_to(2, NOW_MS)
    return log_dir


@pytest.mark.parametrize("checkpointed", [True, False], ids=["checkpointed", "killed-before-the-checkpoint"])
def test_records_after_a_truncation_are_not_clean(tmp_path: Path, checkpointed: bool) -> None:
    log_dir = truncated(tmp_path)
    assert log_dir.first_dirty_offsets == {("topic", 0): 0}
    if checkpointed:
        write = log_dir.truncation_checkpoint()
        assert write is not None
        write()
    else:
        log_dir.close(clean=False)
        log_dir = opened(tmp_path)
        assert log_dir.first_dirty_offsets == {("topic", 0): 0}
        assert log_dir.needs_removal_checkpoint
        log_dir.removal_checkpoint()()
    log = log_dir.logs["topic", 0]
    for _ in range(8):
        append(log)
    log.roll(NOW_MS)
    log_dir.close(clean=False)
    again = opened(tmp_path)
    assert again.first_dirty_offsets == {("topic", 0): 0}
    assert not again.needs_removal_checkpoint


def test_recovery_point_of_a_log_that_lost_its_end_is_lowered_on_disk_at_the_start(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log = log_dir.create_log("topic", 0, TOPIC_ID, LogConfig())
    append(log)
    log.flush()
    log_dir.recovery_point_checkpoint()()
    log_dir.close(clean=False)
    log.segments.first.path.write_bytes(b"")
    again = opened(tmp_path)
    assert again.needs_removal_checkpoint
    assert again.truncation_checkpoint() is not None, "a fetcher tries again if the first write fails"
    again.removal_checkpoint()()
    assert "topic 0 0" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    again.close(clean=False)
    assert not opened(tmp_path).needs_removal_checkpoint


def test_recovery_after_a_truncation_finds_a_hole_below_the_old_recovery_point(tmp_path: Path) -> None:
    """A power loss may leave a file with its size and its indexes, but without a page of it."""
    log_dir = truncated(tmp_path)
    write = log_dir.truncation_checkpoint()
    assert write is not None
    write()
    log = log_dir.logs["topic", 0]
    for _ in range(8):
        append(log)
    log.segments.active.save_indexes()
    log_dir.close(clean=False)
    with log.segments.first.path.open("r+b") as file:
        file.seek(5 * len(batch()))
        file.write(bytes(len(batch())))
    assert opened(tmp_path).logs["topic", 0].log_end_offset == 5


def test_the_checkpoint_after_a_truncation_is_due_until_it_is_written(tmp_path: Path) -> None:
    files = MemoryFiles()
    log_dir = truncated(tmp_path, files)
    failing, files.room = log_dir.truncation_checkpoint(), 0
    assert failing is not None
    with pytest.raises(OSError, match="No space"):
        failing()
    files.heal()
    early = log_dir.truncation_checkpoint()
    assert early is not None
    log_dir.logs["topic", 0].truncate_to(1, NOW_MS)
    early()
    late = log_dir.truncation_checkpoint()
    assert late is not None, "of the second truncation"
    late()
    assert log_dir.truncation_checkpoint() is None
    assert b"topic 0 1" in files.read_bytes(tmp_path / "recovery-point-offset-checkpoint")
    log_dir.close()


@pytest.mark.parametrize("cut", [PartitionLog.truncate_to, PartitionLog.restart_at])
def test_records_after_a_truncation_below_the_log_start_survive_a_kill(
    tmp_path: Path, cut: Callable[[PartitionLog, int, int], None]
) -> None:
    log_dir = opened(tmp_path)
    log = log_dir.create_log("topic", 0, TOPIC_ID, LogConfig())
    for _ in range(8):
        append(log)
    log.delete_records_before(5)
    log_dir.log_start_checkpoint()()
    cut(log, 3, NOW_MS)
    write = log_dir.truncation_checkpoint()
    assert write is not None
    write()
    append(log)
    log_dir.close(clean=False)
    log = opened(tmp_path).logs["topic", 0]
    assert (log.log_start_offset, log.log_end_offset) == (3, 4)

"""The choice of the log to clean next, and the cleaner's checkpoint."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.files import Files
from ottla.broker.storage.log_cleaner_manager import Key, LogCleanerManager
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.partition_log import Origin, PartitionLog
from ottla.broker.storage.recovery import OpenRequest, open_log
from ottla.protocol.records.record import SimpleRecord, build_batch

NOW = 1_700_000_000_000
COMPACT = frozenset({"compact"})


def made(root: Path, topic: str, batches: int, policy: frozenset[str] = COMPACT) -> PartitionLog:
    directory = root / f"{topic}-0"
    directory.mkdir(parents=True)
    config = LogConfig(cleanup_policy=policy, segment_bytes=1000)
    files, rng = Files(), random.Random(1)
    log, _ = open_log(OpenRequest(directory, topic, 0, bytes(16), config, NOW, files, OpenFiles(10), rng))
    fill(log, batches)
    return log


def fill(log: PartitionLog, batches: int) -> None:
    for i in range(batches):
        log.append(build_batch([SimpleRecord(b"k", bytes(100), NOW + i)]), origin=Origin.COORDINATOR, leader_epoch=0, now_ms=NOW)
        log.advance_high_watermark(log.log_end_offset)
    log.roll(NOW)


def manager_of(cleaned: dict[Key, int], saved: list[dict[Key, int]] | None = None) -> LogCleanerManager:
    """Return a manager that begins with the checkpoint `cleaned` and appends each stored checkpoint to `saved`."""
    return LogCleanerManager(cleaned, lambda: lambda: (saved if saved is not None else []).append(dict(cleaned)))


def clean(manager: LogCleanerManager, logs: Mapping[tuple[str, int], PartitionLog]) -> None:
    for blocking in manager.clean_dirtiest(logs, NOW):
        if blocking is not None:
            blocking()


def test_only_dirty_compacted_logs_are_cleaned_and_checkpointed(tmp_path: Path) -> None:
    logs = {("kept", 0): made(tmp_path, "kept", 20, frozenset({"delete"})), ("small", 0): made(tmp_path, "small", 20)}
    sizes = {key: log.size_bytes for key, log in logs.items()}
    saved: list[dict[Key, int]] = []
    manager = manager_of({}, saved)
    clean(manager, logs)
    assert logs["kept", 0].size_bytes == sizes["kept", 0]
    assert logs["small", 0].size_bytes < sizes["small", 0] / 5
    assert saved == [{("small", 0): 20}]
    assert list(manager.clean_dirtiest(logs, NOW)) == []


def test_the_dirtiest_log_comes_first_also_after_a_restart(tmp_path: Path) -> None:
    logs = {("a", 0): made(tmp_path, "a", 20), ("b", 0): made(tmp_path, "b", 20)}
    cleaned: dict[Key, int] = {}
    clean(manager_of(cleaned), {("b", 0): logs["b", 0]})
    fill(logs["b", 0], 8)
    size = logs["a", 0].size_bytes
    clean(manager_of(cleaned), logs)
    assert logs["a", 0].size_bytes < size


def test_a_log_with_a_damaged_batch_is_logged_once_and_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = made(tmp_path, "a", 20)
    path = log.segments.first.path
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    cleaned: dict[Key, int] = {}
    manager = manager_of(cleaned)
    for _ in range(3):
        clean(manager, {("a", 0): log})
    assert [record.levelname for record in caplog.records if "a-0" in record.message] == ["ERROR"]
    assert cleaned == {}
    again = made(tmp_path / "again", "a", 20)
    clean(manager, {("a", 0): again})
    assert cleaned == {("a", 0): again.log_end_offset}


def test_a_log_with_a_damaged_first_header_does_not_block_others(tmp_path: Path) -> None:
    logs = {("a", 0): made(tmp_path, "a", 20), ("b", 0): made(tmp_path, "b", 20)}
    for log in logs.values():
        log.config = dataclasses.replace(log.config, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1)
    first = logs["a", 0].segments.first.path
    first.write_bytes(bytes(16) + b"\x07" + first.read_bytes()[17:])
    cleaned: dict[Key, int] = {}
    manager = manager_of(cleaned)
    for blocking in manager.clean_dirtiest(logs, NOW + 1000):
        if blocking is not None:
            blocking()
    assert cleaned == {("b", 0): 20}


def test_a_log_with_a_disk_error_does_not_block_others_and_is_retried(tmp_path: Path) -> None:
    logs = {("a", 0): made(tmp_path, "a", 20), ("b", 0): made(tmp_path, "b", 20)}
    cleaned: dict[Key, int] = {}
    manager = manager_of(cleaned)
    blocked = logs["b", 0].directory / f"{0:020d}.log.cleaned"
    blocked.mkdir()
    with pytest.raises(OSError, match="cleaned"):
        clean(manager, logs)
    clean(manager, logs)
    assert cleaned == {("a", 0): 20}
    blocked.rmdir()
    clean(manager, logs)
    assert cleaned == {("a", 0): 20, ("b", 0): 20}


def test_a_log_truncated_during_cleaning_is_not_checkpointed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    logs = {("a", 0): made(tmp_path, "a", 20)}
    cleaned: dict[Key, int] = {("a", 0): 7}
    work = manager_of(cleaned).clean_dirtiest(logs, NOW)
    next(work)
    logs["a", 0].truncate_to(5, NOW)
    cleaned["a", 0] = 5
    for blocking in work:
        if blocking is not None:
            blocking()
    assert cleaned == {("a", 0): 5}
    assert not any("Compacted" in record.message for record in caplog.records)


def test_a_log_deleted_during_cleaning_is_not_checkpointed(tmp_path: Path) -> None:
    logs = {("a", 0): made(tmp_path, "a", 20)}
    cleaned: dict[Key, int] = {}
    work = manager_of(cleaned).clean_dirtiest(logs, NOW)
    next(work)
    del logs["a", 0]
    done = [blocking() for blocking in work if blocking is not None]
    assert done
    assert cleaned == {}

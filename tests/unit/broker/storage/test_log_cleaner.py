"""Cleaning of whole logs: readable records, files, and crashes between any two steps."""

from __future__ import annotations

import dataclasses
import itertools
import random
from pathlib import Path

import pytest

from ottla.broker.core import limits
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.storage.files import Files
from ottla.broker.storage.log_cleaner import Cleaning, clean_log, dirtiness, needs_cleaning
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.partition_log import Isolation, Origin, PartitionLog
from ottla.broker.storage.recovery import OpenRequest, open_log
from ottla.protocol.records.batch import read_header, split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.errors import CorruptBatch, RecordsError
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records

NOW = 1_700_000_000_000
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=2000, index_interval_bytes=200, delete_retention_ms=1000)


def opened(directory: Path, *, config: LogConfig = CONFIG, files: Files | None = None, clean: bool = False) -> PartitionLog:
    directory.mkdir(exist_ok=True)
    log, _ = open_log(
        OpenRequest(
            directory=directory,
            topic="t",
            partition=0,
            topic_id=bytes(16),
            config=config,
            now_ms=NOW,
            files=files or Files(),
            open_files=OpenFiles(10),
            rng=random.Random(1),
            clean=clean,
            verifies_transactions=False,
        )
    )
    log.advance_high_watermark(log.log_end_offset)
    return log


def append(log: PartitionLog, batch: bytes) -> None:
    log.append(batch, origin=Origin.COORDINATOR, leader_epoch=0, now_ms=NOW)
    log.advance_high_watermark(log.log_end_offset)


def data_of(producer_id: int, key: bytes, value: bytes | None, sequence: int = 0) -> bytes:
    record = SimpleRecord(key, value, NOW)
    return build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)


def decided(producer_id: int, *, committed: bool) -> bytes:
    return end_txn_marker(committed=committed, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)


def fill(log: PartitionLog, rounds: int = 20) -> dict[bytes, bytes | None]:
    """Write ten keys repeatedly in batches of five, so that segments roll; return the latest values."""
    truth: dict[bytes, bytes | None] = {}
    rng = random.Random(7)
    for i in range(rounds * 2):
        records = [SimpleRecord(b"key%d" % rng.randrange(10), b"value %d.%d" % (i, j) + bytes(20), NOW + i) for j in range(5)]
        truth |= {record.key or b"": record.value for record in records}
        append(log, build_batch(records))
    log.roll(NOW)
    return truth


def finish(cleaning: Cleaning) -> int:
    """Run a cleaning pass to its end, with the syncs that the caller has to do."""
    while True:
        try:
            caller = next(cleaning)
        except StopIteration as stop:
            return int(stop.value)
        if caller is not None:
            caller.sync()


def content(log: PartitionLog, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> dict[bytes | None, bytes | None]:
    """Return the values that a consumer has after reading from the beginning."""
    found: dict[bytes | None, bytes | None] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, 500, isolation=isolation, min_one_batch=True).records
        if not records:
            break
        for position, header in split_batches(records):
            offset = header.next_offset
            if not header.is_control:
                found |= {r.key: r.value for r in iter_records(records[position : position + header.size_bytes])}
    return found


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_pass_keeps_the_latest_values_and_frees_space(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    truth = fill(log)
    before, end = log.size_bytes, log.log_end_offset
    assert len(log.segments) > 4
    assert finish(clean_log(log, 0, NOW)) == end
    assert content(log) == truth
    assert log.size_bytes < before / 4
    assert log.log_end_offset == end


def test_a_cleaned_log_is_the_same_after_a_restart_clean_or_not(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    truth = fill(log)
    finish(clean_log(log, 0, NOW))
    end = log.log_end_offset
    log.release()
    for clean in (False, True):
        again = opened(tmp_path / "t-0", clean=clean)
        assert (content(again), again.log_end_offset) == (truth, end)
        append(again, build_batch([SimpleRecord(b"key0", b"new", NOW)]))
        truth[b"key0"] = b"new"
        end += 1
        again.close()


def test_every_offset_can_still_be_read_from(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    fill(log)
    finish(clean_log(log, 0, NOW))
    for offset in range(log.log_end_offset):
        records = log.read(offset, 1, isolation=Isolation.READ_UNCOMMITTED, min_one_batch=True).records
        assert not records or read_header(records).last_offset >= offset
    assert log.offset_for_timestamp(NOW).offset >= 0


def test_the_second_pass_changes_nothing_until_there_is_more_and_then_merges_small_segments(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    truth = fill(log)
    end = finish(clean_log(log, 0, NOW))
    size, segments = log.size_bytes, len(log.segments)
    assert finish(clean_log(log, end, NOW)) == end
    assert (content(log), log.size_bytes) == (truth, size)
    fill(log, 5)
    assert finish(clean_log(log, end, NOW)) == log.log_end_offset
    assert log.size_bytes < size * 2
    assert len(log.segments) < segments


def test_the_active_segment_and_open_transactions_are_not_cleaned(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    fill(log, 5)
    stable = log.log_end_offset
    open_txn = build_batch([SimpleRecord(b"key1", b"open", NOW)], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    append(log, open_txn)
    log.roll(NOW)
    append(log, build_batch([SimpleRecord(b"key1", b"active", NOW)]))
    assert log.last_stable_offset == stable
    assert finish(clean_log(log, 0, NOW)) <= stable
    assert content(log)[b"key1"] == b"active"
    found = log.read(stable, 1, isolation=Isolation.READ_UNCOMMITTED, min_one_batch=True).records
    assert [r.value for r in iter_records(found)] == [b"open"]


def test_aborted_data_is_removed_and_its_producer_state_kept(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    append(log, build_batch([SimpleRecord(b"a", b"kept", NOW)]))
    append(log, build_batch([SimpleRecord(b"a", b"aborted", NOW)], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True))
    append(log, end_txn_marker(committed=False, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=NOW))
    log.roll(NOW)
    finish(clean_log(log, 0, NOW))
    assert content(log) == {b"a": b"kept"}
    log.release()
    again = opened(tmp_path / "t-0")
    assert content(again) == {b"a": b"kept"}
    assert [(p.producer_id, p.last_sequence) for p in again.producers()] == [(5, 0)]


def test_a_producers_sequence_survives_the_removal_of_its_records(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    for sequence in range(3):
        append(log, build_batch([SimpleRecord(b"a", b"%d" % sequence, NOW)], producer_id=9, producer_epoch=1, base_sequence=sequence))
    append(log, build_batch([SimpleRecord(b"a", b"last", NOW)]))
    log.roll(NOW)
    finish(clean_log(log, 0, NOW))
    assert content(log) == {b"a": b"last"}
    log.release()
    for path in (tmp_path / "t-0").glob("*.snapshot"):
        path.unlink()
    again = opened(tmp_path / "t-0")
    assert [(p.producer_id, p.producer_epoch, p.last_sequence) for p in again.producers()] == [(9, 1, 2)]


def test_a_tombstone_is_removed_after_its_retention(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    append(log, build_batch([SimpleRecord(b"a", b"1", NOW), SimpleRecord(b"b", b"1", NOW)]))
    append(log, build_batch([SimpleRecord(b"a", None, NOW)]))
    append(log, build_batch([SimpleRecord(b"c", b"1", NOW)]))
    log.roll(NOW)
    end = finish(clean_log(log, 0, NOW))
    assert content(log) == {b"b": b"1", b"a": None, b"c": b"1"}
    append(log, build_batch([SimpleRecord(b"d", b"1", NOW)]))
    log.roll(NOW)
    finish(clean_log(log, end, NOW + 1000))
    assert content(log) == {b"b": b"1", b"c": b"1", b"d": b"1"}


def test_transactions_aborted_above_the_stable_offset_stay_hidden(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    append(log, build_batch([SimpleRecord(b"a", b"1", NOW)]))
    append(log, data_of(4, b"open", b"x"))
    append(log, data_of(5, b"b", b"aborted"))
    append(log, decided(5, committed=False))
    log.roll(NOW)
    assert finish(clean_log(log, 0, NOW)) == 1
    append(log, decided(4, committed=True))
    found = log.read(0, 10_000, isolation=Isolation.READ_COMMITTED)
    assert found.aborted == [(5, 2)]
    assert log.last_stable_offset == log.log_end_offset


def test_a_tombstone_of_a_producer_with_an_abort_removes_the_older_value(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    append(log, build_batch([SimpleRecord(b"a", b"1", NOW)]))
    append(log, data_of(5, b"b", b"aborted"))
    append(log, decided(5, committed=False))
    log.roll(NOW)
    end = finish(clean_log(log, 0, NOW))
    append(log, data_of(5, b"a", None, sequence=1))
    append(log, decided(5, committed=True))
    append(log, build_batch([SimpleRecord(b"c", b"1", NOW)]))
    log.roll(NOW)
    end = finish(clean_log(log, end, NOW))
    assert content(log)[b"a"] is None
    append(log, build_batch([SimpleRecord(b"d", b"1", NOW)]))
    log.roll(NOW)
    finish(clean_log(log, end, NOW + 1000))
    assert content(log) == {b"c": b"1", b"d": b"1"}


def test_a_marker_is_kept_while_an_empty_batch_of_its_transaction_is(tmp_path: Path) -> None:
    """Without the marker a replay of the log would find the transaction open for ever."""
    log = opened(tmp_path / "t-0")
    append(log, data_of(5, b"a", b"1"))
    append(log, decided(5, committed=True))
    end = 0
    for round_ in range(3):
        append(log, build_batch([SimpleRecord(b"a", b"2", NOW)]))
        log.roll(NOW)
        end = finish(clean_log(log, end, NOW + round_ * 10_000))
    log.release()
    for path in (tmp_path / "t-0").glob("*.snapshot"):
        path.unlink()
    again = opened(tmp_path / "t-0")
    assert again.last_stable_offset == again.log_end_offset
    assert [(p.producer_id, p.last_sequence) for p in again.producers()] == [(5, 0)]


def test_a_pass_over_a_deleted_log_does_not_change_the_recreated_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPACTION_SLICE_BYTES", 1)
    for slices in range(1, 78, 7):
        log_dir = LogDir.open(tmp_path / str(slices), BrokerSettings(), NOW)
        log = log_dir.create_log("t", 0, b"1" * 16, CONFIG)
        fill(log)
        cleaning = clean_log(log, 0, NOW)
        for caller in itertools.islice(cleaning, slices):
            if caller is not None:
                caller.sync()
        log_dir.delete_log("t", 0)
        log_dir.create_log("t", 0, b"2" * 16, CONFIG, at_once=True)
        before = names(tmp_path / str(slices) / "t-0")
        finish(cleaning)
        assert names(tmp_path / str(slices) / "t-0") == before
        log_dir.close()


def test_a_delete_retention_without_end_keeps_tombstones_for_ever(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", config=dataclasses.replace(CONFIG, delete_retention_ms=2**63 - 1))
    append(log, build_batch([SimpleRecord(b"a", None, -1), SimpleRecord(b"b", None, NOW)]))
    end = 0
    for key in (b"c", b"d"):
        append(log, build_batch([SimpleRecord(key, b"1", NOW)]))
        log.roll(NOW)
        end = finish(clean_log(log, end, NOW + 10**15))
    assert content(log) == {b"a": None, b"b": None, b"c": b"1", b"d": b"1"}


class Crash(Exception):
    """Raised where the process is killed."""


class DyingFiles(Files):
    """Files that kill the process at the n-th rename or removal."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)

    def sync_dir(self, path: Path) -> None:
        self._step()
        super().sync_dir(path)

    def remove(self, path: Path) -> None:
        if self.left >= 0:  # a dead process clears nothing away
            super().remove(path)


def test_a_crash_between_any_two_steps_loses_nothing(tmp_path: Path) -> None:
    crashed = 0
    for steps in range(60):
        directory = tmp_path / str(steps)
        healthy = opened(directory)
        truth = fill(healthy, 8)
        healthy.close()
        files = DyingFiles(10**6)
        log = opened(directory, files=files, clean=True)
        files.left = steps
        try:
            finish(clean_log(log, 0, NOW))
        except Crash:
            crashed += 1
        files.left = 10**6
        log.release()
        again = opened(directory)
        assert content(again) == truth, steps
        assert not [name for name in names(directory) if name.endswith((".cleaned", ".swap"))], steps
        again.release()
        if files.left == 10**6 and crashed < steps:
            break
    assert crashed > 8


class FullFiles(Files):
    """Files that reject writes with ENOSPC while `full`."""

    full = False

    def pwrite(self, fd: int, buffers: object, position: int) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().pwrite(fd, buffers, position)  # type: ignore[arg-type]  # passed on as it came


def test_a_full_disk_ends_the_pass_and_the_log_stays_usable(tmp_path: Path) -> None:
    files = FullFiles()
    log = opened(tmp_path / "t-0", files=files)
    truth = fill(log)
    files.full = True
    with pytest.raises(OSError, match="No space"):
        finish(clean_log(log, 0, NOW))
    files.full = False
    assert (content(log), log.failure) == (truth, None)
    assert not [name for name in names(tmp_path / "t-0") if name.endswith((".cleaned", ".swap"))]


def test_a_damaged_batch_ends_the_pass_without_changes(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    fill(log)
    path = log.segments.first.path
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    before = names(tmp_path / "t-0")
    with pytest.raises(CorruptBatch):
        finish(clean_log(log, 0, NOW))
    assert names(tmp_path / "t-0") == before


def test_a_segment_removed_during_the_pass_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPACTION_SLICE_BYTES", 1)
    log = opened(tmp_path / "t-0")
    truth = fill(log)
    cleaning = clean_log(log, 0, NOW)
    for _ in range(60):
        next(cleaning)
    first = log.segments.first
    log.segments.replace([first], [])
    log.delete_segment_files(first, NOW)
    finish(cleaning)
    assert not first.path.exists()
    assert not [name for name in names(tmp_path / "t-0") if name.endswith((".cleaned", ".swap"))]
    assert content(log).items() <= truth.items()


@pytest.mark.parametrize("end", [3, 1], ids=["above-the-high-watermark", "unclean-election"])
def test_a_truncation_during_the_pass_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    """The segment with offset `end` is inactive when the pass begins. After the truncation it is the active one, and new records follow."""
    monkeypatch.setattr(limits, "COMPACTION_SLICE_BYTES", 1)
    for slices in itertools.count(1):
        log = opened(tmp_path / str(slices))
        for key, value in ((b"a", b"1"), (b"a", b"2"), (b"b", b"1")):
            append(log, build_batch([SimpleRecord(key, value, NOW)]))
        for key in (b"a", b"b", b"c"):  # above the high watermark
            log.append(build_batch([SimpleRecord(key, b"lost", NOW)]), origin=Origin.COORDINATOR, leader_epoch=0, now_ms=NOW)
        log.roll(NOW)
        log.append(build_batch([SimpleRecord(b"a", b"lost", NOW)]), origin=Origin.COORDINATOR, leader_epoch=0, now_ms=NOW)
        cleaning = clean_log(log, 0, NOW)
        made = 0
        for work in itertools.islice(cleaning, slices):
            made += 1
            if work is not None:
                work.sync()
        if made < slices:  # the pass has ended before the truncation
            break
        log.truncate_to(end, NOW)
        append(log, build_batch([SimpleRecord(b"d", b"new", NOW)]))
        finish(cleaning)
        expected = {b"a": b"2", b"b": b"1", b"d": b"new"} if end == 3 else {b"a": b"1", b"d": b"new"}
        assert (content(log), log.log_end_offset) == (expected, end + 1), slices
        log.release()
        again = opened(tmp_path / str(slices))
        assert (content(again), again.log_end_offset) == (expected, end + 1), slices
        again.release()
    assert slices > 8


def test_appends_between_slices_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPACTION_SLICE_BYTES", 1)
    log = opened(tmp_path / "t-0")
    truth = fill(log)
    slices = 0
    for caller in clean_log(log, 0, NOW):
        slices += 1
        if caller is not None:
            caller.sync()
        append(log, build_batch([SimpleRecord(b"key%d" % (slices % 10), b"during %d" % slices, NOW)]))
        truth[b"key%d" % (slices % 10)] = b"during %d" % slices
    assert slices > 20
    assert content(log) == truth


def test_more_keys_than_the_map_holds_need_more_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPACTION_KEYS", 6)
    log = opened(tmp_path / "t-0")
    truth = fill(log)
    end = 0
    for _ in range(1000):
        reached = finish(clean_log(log, end, NOW))
        assert reached > end
        end = reached
        if end == log.log_end_offset:
            break
    assert end == log.log_end_offset
    assert content(log) == truth


def test_dirtiness_counts_new_bytes_outside_the_compaction_lag(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    assert not needs_cleaning(log, dirtiness(log, 0, NOW), NOW)
    fill(log)
    found = dirtiness(log, 0, NOW)
    assert (found.first_dirty, found.end, found.clean_bytes, found.ratio) == (0, log.log_end_offset, 0, 1.0)
    assert needs_cleaning(log, found, NOW)
    end = finish(clean_log(log, 0, NOW))
    assert not needs_cleaning(log, dirtiness(log, end, NOW), NOW)
    assert dirtiness(log, end + 10**6, NOW).first_dirty == 0
    log.config = LogConfig(cleanup_policy=CONFIG.cleanup_policy, min_compaction_lag_ms=1000)
    assert dirtiness(log, 0, NOW).end == 0
    log.config = LogConfig(cleanup_policy=CONFIG.cleanup_policy, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=10)
    fill(log, 2)
    assert not needs_cleaning(log, dirtiness(log, end, NOW), NOW)
    assert needs_cleaning(log, dirtiness(log, end, NOW), NOW + 1000)


def test_any_dirty_segment_that_is_older_than_the_compaction_lag_makes_cleaning_due(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    log.config = dataclasses.replace(CONFIG, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=10)
    for at in (NOW + 1000, NOW):
        append(log, build_batch([SimpleRecord(b"k", b"v", at)]))
        log.roll(NOW)
    assert not needs_cleaning(log, dirtiness(log, 0, NOW), NOW + 10)
    assert needs_cleaning(log, dirtiness(log, 0, NOW), NOW + 11)


def test_the_file_keeps_the_newest_modification_time_of_those_it_replaces(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    fill(log)
    for segment in log.segments:
        Files().set_mtime_ms(segment.path, 5_000)
    finish(clean_log(log, 0, NOW))
    assert Files().mtime_ms(log.segments.first.path) == 5_000


def test_large_and_compressed_batches_are_decoded_off_the_loop(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", config=dataclasses.replace(CONFIG, segment_bytes=1 << 20))
    few = [SimpleRecord(b"key", b"old", NOW)]
    append(log, build_batch(few, codec=Codec.ZSTD))
    append(log, build_batch(few * (limits.CLEANED_AT_ONCE_RECORDS + 1)))
    append(log, build_batch([SimpleRecord(b"key", b"new", NOW)]))
    log.roll(NOW)
    cleaning = clean_log(log, 0, NOW)
    off_loop = 0
    for work in cleaning:
        assert work is not None
        work.sync()
        off_loop += 1
    assert off_loop == 5, "two batches, each twice, and the sync of the new segment"
    assert content(log) == {b"key": b"new"}


def test_a_segment_removed_while_a_batch_is_decoded_ends_the_pass(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    append(log, build_batch([SimpleRecord(b"key", b"old", NOW)], codec=Codec.ZSTD))
    append(log, build_batch([SimpleRecord(b"key", b"new", NOW)], codec=Codec.ZSTD))
    log.roll(NOW)
    cleaning = clean_log(log, 0, NOW)
    opening = next(cleaning)
    assert opening is not None
    opening.sync()
    first = log.segments.first
    log.segments.replace([first], [])
    log.delete_segment_files(first, NOW)
    assert finish(cleaning) == 0
    assert not first.path.exists()


def test_a_damaged_compressed_batch_is_found_while_decoding(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    batch = build_batch([SimpleRecord(b"key", b"old", NOW)], codec=Codec.ZSTD)
    append(log, batch)
    log.roll(NOW)
    with (tmp_path / "t-0" / f"{0:020}.log").open("r+b") as file:
        file.seek(len(batch) - 1)
        file.write(b"\xff")
    with pytest.raises(RecordsError):
        finish(clean_log(log, 0, NOW))

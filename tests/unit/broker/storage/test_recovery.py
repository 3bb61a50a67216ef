"""Recovery at the start after a crash, disk damage or manual changes: valid data is kept, damage is reported."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.producer_state import Origin
from tests.support.logs import NOW_MS, LogHarness, batch, marker, producers, windows

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
"""Four to five batches a segment, an index entry every second batch."""


def filled(tmp_path: Path, batches: int = 12, config: LogConfig = SMALL) -> LogHarness:
    harness = LogHarness(tmp_path / "topic-0", config)
    for i in range(batches):
        harness.append(batch(7, 0, i, timestamp=NOW_MS + i))
    return harness


def offsets(harness: LogHarness) -> list[int]:
    return [h.base_offset for h in harness.headers()]


def index_entries(harness: LogHarness) -> list[object]:
    return [
        (
            s.base_offset,
            [s.offset_index.entry(i) for i in range(len(s.offset_index))],
            [s.time_index.entry(i) for i in range(len(s.time_index))],
        )
        for s in harness.log.segments
    ]


# --- whole logs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["crash", "restart"])
def test_an_undamaged_log_is_recovered_unchanged(tmp_path: Path, end: str) -> None:
    harness = filled(tmp_path)
    before = (offsets(harness), index_entries(harness), producers(harness.log))
    getattr(harness, end)()
    assert harness.findings == []
    after = (offsets(harness), index_entries(harness), producers(harness.log))
    if end == "restart":  # closing gave the active segment's time index its last entry
        assert after[1][-1][2][: len(before[1][-1][2])] == before[1][-1][2]  # type: ignore[index]  # rows are (base, entries, entries)
        assert after[::2] == before[::2]
    else:
        assert after == before


def test_appending_continues_at_the_log_end_after_a_crash(tmp_path: Path) -> None:
    harness = filled(tmp_path)
    harness.crash()
    assert harness.append(batch(7, 0, 12)).first_offset == 12
    assert offsets(harness) == list(range(13))


def test_recovered_indexes_equal_the_original_ones(tmp_path: Path) -> None:
    harness = filled(tmp_path, 40, LogConfig(index_interval_bytes=200))
    before = index_entries(harness)
    harness.crash()
    assert index_entries(harness) == before
    assert len(harness.log.segments.active.offset_index) > 5


def test_an_empty_directory_gives_an_empty_log_with_kafkas_files(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    assert (harness.log.log_start_offset, harness.log.log_end_offset) == (0, 0)
    names = {p.name for p in harness.directory.iterdir()}
    assert names == {f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", "leader-epoch-checkpoint"}


# --- a torn or damaged tail -------------------------------------------------------------------------------------------


def test_a_partial_last_batch_is_truncated_and_reported(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    harness.append(batch(7, 0, 0))
    whole = harness.log.size_bytes
    harness.append(batch(7, 0, 1))
    path = harness.file(".log")
    data = path.read_bytes()
    for size in range(whole + 1, len(data)):
        path.write_bytes(data[:size])
        harness.crash()
        assert harness.log.log_end_offset == 1
        assert path.stat().st_size == whole
        (finding,) = harness.findings
        assert (finding.file, finding.position, finding.bytes_dropped) == (path, whole, size - whole)
        assert not harness.append(batch(7, 0, 1)).duplicate
        assert path.read_bytes()[whole:] == data[whole:]


def test_any_flipped_bit_in_an_unflushed_batch_truncates_the_log_before_it(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    for i in range(3):
        harness.append(batch(7, 0, i))
    path = harness.file(".log")
    data = path.read_bytes()
    size = len(data) // 3
    outside_checksum = range(12, 16)  # the leader epoch
    for at in [i for i in range(size) if i not in outside_checksum]:
        damaged = bytearray(data)
        damaged[size + at] ^= 0x10
        path.write_bytes(damaged)
        harness.crash()
        # A changed base offset or length may lead elsewhere, but never past the second batch.
        assert harness.log.log_end_offset == 1 or (at < 8 and damaged[size : size + 8] > data[size : size + 8]), at
        assert at < 8 or len(harness.findings) == 1
        assert producers(harness.log)[7][1] == 0 or at < 8


def test_a_decreasing_offset_truncates_the_log(tmp_path: Path) -> None:
    harness = filled(tmp_path, 2, LogConfig())
    path = harness.file(".log")
    data = path.read_bytes()
    path.write_bytes(data + data[: len(data) // 2])
    harness.crash()
    assert harness.log.log_end_offset == 2
    assert [f.reason for f in harness.findings] == ["offset 0 follows 1; the log is truncated there"]


def test_zeros_after_the_last_batch_are_truncated(tmp_path: Path) -> None:
    harness = filled(tmp_path, 2)
    path = harness.file(".log")
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(4096))
    harness.crash()
    assert harness.log.log_end_offset == 2
    assert harness.findings[0].bytes_dropped == 4096
    assert path.stat().st_size == size


def test_segments_after_a_damaged_one_are_removed_and_reported(tmp_path: Path) -> None:
    harness = filled(tmp_path)
    bases = harness.log.segments.base_offsets
    assert len(bases) >= 3
    path = harness.file(".log", bases[1])
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    harness.crash()
    assert harness.log.log_end_offset == bases[1]
    assert [f.file.name for f in harness.findings] == [f"{base:020d}.log" for base in bases[1:]]
    assert not harness.file(".log", bases[2]).exists()
    assert harness.append(batch(7, 0, bases[1])).first_offset == bases[1]


def test_damage_below_the_recovery_point_is_not_searched(tmp_path: Path) -> None:
    harness = filled(tmp_path)
    harness.log.flush()
    path = harness.file(".log")
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    harness.crash()
    assert harness.findings == []
    assert harness.log.log_end_offset == 12


def test_only_batches_past_the_recovery_point_are_checked(tmp_path: Path) -> None:
    files = MemoryFiles()
    harness = LogHarness(tmp_path / "topic-0", LogConfig(index_interval_bytes=1000), files)
    for i in range(300):
        harness.append(batch(count=5, size=200, timestamp=NOW_MS + i))
    harness.log.flush()
    harness.append(batch(count=5, size=200))
    read = 0
    pread = MemoryFiles.pread

    def counting(self: MemoryFiles, fd: int, size: int, position: int) -> bytes:
        nonlocal read
        data = pread(self, fd, size, position)
        read += len(data)
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFiles, "pread", counting)
        patch.setattr("ottla.broker.storage.producer_replay.replay", lambda *args: None)
        patch.setattr("ottla.broker.storage.recovery.replay", lambda *args: None)
        harness.crash()
    assert harness.log.log_end_offset == 301 * 5
    assert read < 20_000 < harness.log.size_bytes


# --- other files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [None, b"", b"\xff" * 24, b"\x00\x00\x00\x03" * 5, bytes(1024), b"x" * 7], ids=repr)
@pytest.mark.parametrize("end", ["crash", "restart"])
def test_a_damaged_index_of_the_active_segment_is_rebuilt(tmp_path: Path, suffix: str, content: bytes | None, end: str) -> None:
    harness = filled(tmp_path, 20, LogConfig(index_interval_bytes=100))
    harness.log.close()
    if content is None:
        harness.file(suffix).unlink()
    else:
        harness.file(suffix).write_bytes(content)
    harness.open(clean=end == "restart")
    for offset in range(20):
        assert harness.log.read(offset, 90, isolation=Isolation.LOG_END, min_one_batch=True).records[7] == offset
    assert harness.log.log_end_offset == 20


def test_a_missing_index_is_rebuilt_after_a_clean_stop(tmp_path: Path) -> None:
    harness = filled(tmp_path)
    before = index_entries(harness)
    base = harness.log.segments.base_offsets[1]
    harness.log.close()
    harness.file(".index", base).unlink()
    harness.open(clean=True)
    assert [f.file for f in harness.findings] == [harness.file(".index", base)]
    assert index_entries(harness)[1][1] == before[1][1]  # type: ignore[index]  # rows are (base, entries, entries)
    assert harness.file(".index", base).exists()
    assert offsets(harness) == list(range(12))


def test_an_invalid_index_of_an_old_segment_only_slows_the_search(tmp_path: Path) -> None:
    for content in (b"\xff" * 24, b"\x00\x00\x00\x01\x00\x00\x00\x05", b"\x00\x00\x00\x00\x00\x00\x00\x9a"):
        harness = filled(tmp_path / repr(content))
        harness.log.close()
        harness.file(".index").write_bytes(content)
        harness.open(clean=True)
        assert [harness.log.read(i, 90, isolation=Isolation.LOG_END, min_one_batch=True).records[7] for i in range(12)] == list(range(12))


def test_an_index_without_its_log_is_removed(tmp_path: Path) -> None:
    harness = filled(tmp_path, 2)
    harness.log.close()
    orphan = harness.file(".index", 99)
    orphan.write_bytes(b"")
    harness.open(clean=True)
    assert not orphan.exists()
    assert [f.file for f in harness.findings] == [orphan]


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(14), b"\x00\x01" + bytes(20)], ids=repr)
def test_a_corrupt_producer_snapshot_is_removed_and_the_log_replayed(tmp_path: Path, content: bytes) -> None:
    harness = filled(tmp_path, 3, LogConfig())
    before = producers(harness.log)
    harness.log.close()
    harness.file(".snapshot", 3).write_bytes(content)
    harness.open(clean=True)
    assert [f.file for f in harness.findings] == [harness.file(".snapshot", 3)]
    assert producers(harness.log) == before
    assert len(windows(harness.log)[7]) == 3


def test_producer_snapshots_above_the_log_end_are_removed(tmp_path: Path) -> None:
    """Scenario 14: a snapshot of a producer's state may be newer than the truncated log."""
    harness = filled(tmp_path, 3, LogConfig())
    harness.log.close()
    path = harness.file(".log")
    path.write_bytes(path.read_bytes()[:-1])
    harness.open(clean=False)
    assert not harness.file(".snapshot", 3).exists()
    assert producers(harness.log)[7][1] == 1


def test_stray_producer_snapshots_are_removed_except_the_newest(tmp_path: Path) -> None:
    harness = filled(tmp_path, 6, LogConfig())
    harness.log.close()
    newest = harness.file(".snapshot", 6).read_bytes()
    for stray in (2, 3):
        harness.file(".snapshot", stray).write_bytes(newest)
    harness.open(clean=True)
    assert sorted(p.name for p in harness.directory.glob("*.snapshot")) == [f"{6:020d}.snapshot"]


@pytest.mark.parametrize("clean", [True, False], ids=["restart", "crash"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"0\n1\n5 x\n", b"0\n2\n1 0\n"], ids=repr)
def test_a_lost_epoch_file_is_rebuilt_from_the_batches(tmp_path: Path, content: bytes | None, clean: bool) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    for epoch in (2, 2, 5, 5):
        harness.log.append(batch(), origin=Origin.CLIENT, leader_epoch=epoch, now_ms=NOW_MS)
        harness.log.roll(NOW_MS)
    harness.log.close()
    path = harness.directory / "leader-epoch-checkpoint"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    harness.open(clean=clean, recovery_point=3)
    assert [tuple(e) for e in harness.log.epochs.entries] == [(2, 0), (5, 2)]
    assert path.read_bytes() == b"0\n2\n2 0\n5 2\n"


@pytest.mark.parametrize("lost", ["leader-epoch-checkpoint", "*.snapshot"])
def test_damage_in_an_old_segment_does_not_stop_the_start(tmp_path: Path, lost: str) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    for sequence in range(6):
        harness.append(batch(7, 0, sequence))
        if sequence % 2:
            harness.log.roll(NOW_MS)
    harness.log.close()
    data = bytearray(harness.file(".log", 2).read_bytes())
    data[8:12] = bytes(4)
    harness.file(".log", 2).write_bytes(data)
    for path in harness.directory.glob(lost):
        path.unlink()
    harness.open(clean=True)
    assert harness.log.log_end_offset == 6
    assert [tuple(e) for e in harness.log.epochs.entries] == [(0, 0)]
    assert harness.append(batch(7, 0, 6)).first_offset == 6


def test_epochs_of_truncated_batches_are_removed(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    for epoch in (2, 5):
        harness.log.append(batch(), origin=Origin.CLIENT, leader_epoch=epoch, now_ms=NOW_MS)
    harness.log.release()
    path = harness.file(".log")
    path.write_bytes(path.read_bytes()[:-1])
    harness.open(clean=False)
    assert [tuple(e) for e in harness.log.epochs.entries] == [(2, 0)]


def test_the_aborted_index_is_rebuilt_with_transactions_from_earlier_segments(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    harness.append(batch(7, 0, 0, transactional=True))
    harness.append(batch(8, 0, 0, transactional=True))
    harness.log.roll(NOW_MS)
    harness.append(marker(7, 0, committed=False), origin=Origin.COORDINATOR)
    harness.append(batch(9, 0, 0, transactional=True))
    harness.append(marker(9, 0, committed=False), origin=Origin.COORDINATOR)
    before = [list(s.txn_index.entries()) for s in harness.log.segments]
    assert [tuple(e) for e in before[1]] == [(7, 0, 2, 1), (9, 3, 4, 1)]
    harness.crash()
    assert [list(s.txn_index.entries()) for s in harness.log.segments] == before
    harness.restart()
    assert [list(s.txn_index.entries()) for s in harness.log.segments] == before


@pytest.mark.parametrize("content", [b"junk", b"\x00\x01" + bytes(32), b"\xff" * 34], ids=["short", "version 1", "ones"])
@pytest.mark.parametrize("is_active", [True, False], ids=["active", "older"])
@pytest.mark.parametrize("clean", [True, False], ids=["restart", "crash"])
def test_an_invalid_aborted_index_is_rebuilt(tmp_path: Path, content: bytes, is_active: bool, clean: bool) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    harness.append(batch(7, 0, 0, transactional=True))
    harness.append(marker(7, 0, committed=False), origin=Origin.COORDINATOR)
    if not is_active:
        harness.log.roll(NOW_MS)
    harness.append(batch(8, 0, 0, transactional=True))
    before = [list(s.txn_index.entries()) for s in harness.log.segments]
    harness.log.close()
    harness.file(".txnindex").write_bytes(content)
    harness.open(clean=clean, recovery_point=harness.log.recovery_point)
    assert [f.file for f in harness.findings] == [harness.file(".txnindex")]
    assert [list(s.txn_index.entries()) for s in harness.log.segments] == before
    harness.append(marker(8, 0, committed=False), origin=Origin.COORDINATOR)
    harness.restart()
    assert harness.findings == []
    assert harness.log.read(0, 1 << 20, isolation=Isolation.READ_COMMITTED).aborted[0] == (7, 0)


# --- the log's start --------------------------------------------------------------------------------------------------


def test_the_log_start_checkpoint_hides_deleted_records(tmp_path: Path) -> None:
    harness = filled(tmp_path, 3, LogConfig())
    harness.log.close()
    harness.open(clean=True, log_start=2)
    assert (harness.log.log_start_offset, offsets(harness)) == (2, [2])


def test_the_producer_state_of_deleted_records_survives_a_crash(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    harness.append(batch(7, 0, 0, transactional=True))
    harness.append(batch(8, 0, 0))
    harness.log.roll(NOW_MS)
    harness.append(marker(7, 0, committed=True), origin=Origin.COORDINATOR)
    harness.append(batch(8, 0, 1))
    harness.append(batch())
    harness.log.delete_records_before(4)
    harness.log.apply_retention(NOW_MS)
    before = producers(harness.log)
    harness.crash()
    assert producers(harness.log) == before
    assert harness.log.last_stable_offset == harness.log.log_end_offset
    assert harness.append(batch(8, 0, 2)).first_offset == 5


def test_a_producer_snapshot_below_the_log_start_is_ignored(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    harness.append(batch(7, 0, 0, transactional=True))
    harness.log.roll(NOW_MS)
    harness.append(batch(8, 0, 0, transactional=True))
    harness.log.release()
    harness.open(clean=False, log_start=50)
    assert producers(harness.log) == {}
    assert harness.append(batch(8, 0, 5)).first_offset == 50


def test_a_log_that_ends_before_its_start_is_emptied(tmp_path: Path) -> None:
    harness = filled(tmp_path, 3, LogConfig())
    harness.log.close()
    harness.open(clean=False, log_start=50)
    assert (harness.log.log_start_offset, harness.log.log_end_offset) == (50, 50)
    assert [f.file for f in harness.findings] == [harness.file(".log")]
    assert harness.append(batch()).first_offset == 50


# --- power and space --------------------------------------------------------------------------------------------------


def test_flushed_batches_survive_a_power_loss_and_partial_ones_do_not(tmp_path: Path) -> None:
    files = MemoryFiles()
    harness = LogHarness(tmp_path / "topic-0", SMALL, files)
    for i in range(7):
        harness.append(batch(7, 0, i))
    harness.log.flush()
    point = harness.log.recovery_point
    for i in range(7, 15):
        harness.append(batch(7, 0, i))
    files.power_loss()
    harness.open(clean=False, recovery_point=point)
    assert harness.log.log_end_offset == point == 7
    assert producers(harness.log)[7][1] == 6
    assert harness.append(batch(7, 0, 7)).first_offset == 7


def test_a_kill_during_a_truncation_leaves_no_gap() -> None:
    class Killed(Exception):
        pass

    for calls in count():
        files = MemoryFiles()
        harness = LogHarness(Path("/data/topic-0"), SMALL, files)
        for i in range(15):
            harness.append(batch(7, 0, i))
        harness.log.flush()
        left = iter(range(calls))

        def call(operation: str, path: Path, left: Iterator[int] = left) -> None:
            if operation != "read" and next(left, None) is None:
                raise Killed

        files.on_call = call
        try:
            harness.log.truncate_to(2, NOW_MS)
        except Killed:
            files.heal()
            files.process_died()
            harness.open(clean=False, recovery_point=15)
            assert offsets(harness) == list(range(harness.log.log_end_offset)), f"killed after {calls} calls"
            assert harness.log.log_end_offset >= 2
        else:
            assert calls > 6, "several segments are removed"
            return


@pytest.mark.parametrize("torn", [b"", b"torn"])
def test_a_power_loss_that_keeps_only_the_name_of_the_new_segment_leaves_no_gap(torn: bytes) -> None:
    """A replica would fetch from the new segment's base offset on, and never get the records before it that the power loss took."""
    files = MemoryFiles()
    harness = LogHarness(Path("/data/topic-0"), LogConfig(), files)
    harness.append(batch())
    harness.log.flush()
    harness.append(batch())
    harness.log.roll(NOW_MS)
    files.write(harness.file(".log", 2), torn, sync=True)
    files.sync_dir(harness.directory)
    files.power_loss()
    harness.open(clean=False, recovery_point=1)
    assert (offsets(harness), harness.log.log_end_offset) == ([0], 1)
    assert [finding.file for finding in harness.findings][-1] == harness.file(".log", 2)
    assert harness.append(batch()).first_offset == 1


def test_a_gap_before_records_is_kept(tmp_path: Path) -> None:
    """Compaction makes such gaps, too."""
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=2 * len(batch())))
    for _ in range(3):
        harness.append(batch())
    harness.log.close()
    harness.file(".log").write_bytes(harness.file(".log").read_bytes()[: len(batch())])
    harness.open(clean=False, recovery_point=0)
    assert offsets(harness) == [0, 2]


def test_a_removed_segment_that_a_power_loss_brings_back_is_removed_again(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=4 * len(batch())))
    for _ in range(6):
        harness.append(batch())
    old = harness.file(".log", 4).read_bytes()
    harness.log.truncate_to(1, NOW_MS)
    harness.log.config = LogConfig()
    for _ in range(6):
        harness.append(batch(size=20))
    harness.file(".log", 4).write_bytes(old)
    harness.log.release()
    harness.open(clean=False, recovery_point=1)
    assert (harness.log.segments.base_offsets, harness.log.log_end_offset) == ((0,), 7)


def test_a_directory_on_a_read_only_disk_can_be_read(tmp_path: Path) -> None:
    files = MemoryFiles()
    harness = LogHarness(tmp_path / "topic-0", SMALL, files)
    for i in range(12):
        harness.append(batch(7, 0, i))
    harness.log.close()
    files.make_read_only()
    harness.open(clean=True)
    assert offsets(harness) == list(range(12))


def test_an_index_that_leads_beyond_a_truncated_log_is_rebuilt(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "t-0", LogConfig(index_interval_bytes=100))
    for _ in range(20):
        harness.append(batch(size=100))
    harness.log.flush()
    flushed = harness.log.recovery_point
    harness.log.truncate_to(5, NOW_MS)  # in memory; the index file is written at the next flush
    harness.log.release()
    log = harness.open(clean=False, recovery_point=flushed)
    assert log.log_end_offset == 5
    assert [header.base_offset for header in harness.headers()] == list(range(5))

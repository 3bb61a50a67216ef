"""Recovery at the start after a crash, disk damage or manual changes: valid data is kept, damage is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.producer_state import Origin
from tests.support.logs import NOW_MS, LogBox, batch, marker, producers, windows

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
"""Four to five batches a segment, an index entry every second batch."""


def filled(tmp_path: Path, batches: int = 12, config: LogConfig = SMALL) -> LogBox:
    box = LogBox(tmp_path / "topic-0", config)
    for i in range(batches):
        box.append(batch(7, 0, i, timestamp=NOW_MS + i))
    return box


def offsets(box: LogBox) -> list[int]:
    return [h.base_offset for h in box.headers()]


def index_entries(box: LogBox) -> list[object]:
    return [
        (
            s.base_offset,
            [s.offset_index.entry(i) for i in range(len(s.offset_index))],
            [s.time_index.entry(i) for i in range(len(s.time_index))],
        )
        for s in box.log.segments
    ]


# --- whole logs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["crash", "restart"])
def test_an_undamaged_log_is_recovered_unchanged(tmp_path: Path, end: str) -> None:
    box = filled(tmp_path)
    before = (offsets(box), index_entries(box), producers(box.log))
    getattr(box, end)()
    assert box.findings == []
    after = (offsets(box), index_entries(box), producers(box.log))
    if end == "restart":  # closing gave the active segment's time index its last entry
        assert after[1][-1][2][: len(before[1][-1][2])] == before[1][-1][2]  # type: ignore[index]  # rows are (base, entries, entries)
        assert after[::2] == before[::2]
    else:
        assert after == before


def test_appending_continues_at_the_log_end_after_a_crash(tmp_path: Path) -> None:
    box = filled(tmp_path)
    box.crash()
    assert box.append(batch(7, 0, 12)).first_offset == 12
    assert offsets(box) == list(range(13))


def test_recovered_indexes_equal_the_original_ones(tmp_path: Path) -> None:
    box = filled(tmp_path, 40, LogConfig(index_interval_bytes=200))
    before = index_entries(box)
    box.crash()
    assert index_entries(box) == before
    assert len(box.log.segments.active.offset_index) > 5


def test_an_empty_directory_gives_an_empty_log_with_kafkas_files(tmp_path: Path) -> None:
    box = LogBox(tmp_path / "topic-0")
    assert (box.log.log_start_offset, box.log.log_end_offset) == (0, 0)
    names = {p.name for p in box.directory.iterdir()}
    assert names == {f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", "leader-epoch-checkpoint"}


# --- a torn or damaged tail -------------------------------------------------------------------------------------------


def test_a_partial_last_batch_is_truncated_and_reported(tmp_path: Path) -> None:
    box = LogBox(tmp_path / "topic-0")
    box.append(batch(7, 0, 0))
    whole = box.log.size_bytes
    box.append(batch(7, 0, 1))
    path = box.file(".log")
    data = path.read_bytes()
    for size in range(whole + 1, len(data)):
        path.write_bytes(data[:size])
        box.crash()
        assert box.log.log_end_offset == 1
        assert path.stat().st_size == whole
        (finding,) = box.findings
        assert (finding.file, finding.position, finding.bytes_dropped) == (path, whole, size - whole)
        assert not box.append(batch(7, 0, 1)).duplicate
        assert path.read_bytes()[whole:] == data[whole:]


def test_any_flipped_bit_in_an_unflushed_batch_truncates_the_log_before_it(tmp_path: Path) -> None:
    box = LogBox(tmp_path / "topic-0")
    for i in range(3):
        box.append(batch(7, 0, i))
    path = box.file(".log")
    data = path.read_bytes()
    size = len(data) // 3
    outside_checksum = range(12, 16)  # the leader epoch
    for at in [i for i in range(size) if i not in outside_checksum]:
        damaged = bytearray(data)
        damaged[size + at] ^= 0x10
        path.write_bytes(damaged)
        box.crash()
        # A changed base offset or length may lead elsewhere, but never past the second batch.
        assert box.log.log_end_offset == 1 or (at < 8 and damaged[size : size + 8] > data[size : size + 8]), at
        assert at < 8 or len(box.findings) == 1
        assert producers(box.log)[7][1] == 0 or at < 8


def test_a_decreasing_offset_truncates_the_log(tmp_path: Path) -> None:
    box = filled(tmp_path, 2, LogConfig())
    path = box.file(".log")
    data = path.read_bytes()
    path.write_bytes(data + data[: len(data) // 2])
    box.crash()
    assert box.log.log_end_offset == 2
    assert [f.reason for f in box.findings] == ["offset 0 follows 1; the log is truncated there"]


def test_zeros_after_the_last_batch_are_truncated(tmp_path: Path) -> None:
    box = filled(tmp_path, 2)
    path = box.file(".log")
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(4096))
    box.crash()
    assert box.log.log_end_offset == 2
    assert box.findings[0].bytes_dropped == 4096
    assert path.stat().st_size == size


def test_segments_after_a_damaged_one_are_removed_and_reported(tmp_path: Path) -> None:
    box = filled(tmp_path)
    bases = box.log.segments.base_offsets
    assert len(bases) >= 3
    path = box.file(".log", bases[1])
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    box.crash()
    assert box.log.log_end_offset == bases[1]
    assert [f.file.name for f in box.findings] == [f"{base:020d}.log" for base in bases[1:]]
    assert not box.file(".log", bases[2]).exists()
    assert box.append(batch(7, 0, bases[1])).first_offset == bases[1]


def test_damage_below_the_recovery_point_is_not_searched(tmp_path: Path) -> None:
    box = filled(tmp_path)
    box.log.flush()
    path = box.file(".log")
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    box.crash()
    assert box.findings == []
    assert box.log.log_end_offset == 12


def test_only_batches_past_the_recovery_point_are_checked(tmp_path: Path) -> None:
    files = MemoryFiles()
    box = LogBox(tmp_path / "topic-0", LogConfig(index_interval_bytes=1000), files)
    for i in range(300):
        box.append(batch(count=5, size=200, timestamp=NOW_MS + i))
    box.log.flush()
    box.append(batch(count=5, size=200))
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
        box.crash()
    assert box.log.log_end_offset == 301 * 5
    assert read < 20_000 < box.log.size_bytes


# --- other files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [None, b"", b"\xff" * 24, b"\x00\x00\x00\x03" * 5, bytes(1024), b"x" * 7], ids=repr)
@pytest.mark.parametrize("end", ["crash", "restart"])
def test_a_damaged_index_of_the_active_segment_is_rebuilt(tmp_path: Path, suffix: str, content: bytes | None, end: str) -> None:
    box = filled(tmp_path, 20, LogConfig(index_interval_bytes=100))
    box.log.close()
    if content is None:
        box.file(suffix).unlink()
    else:
        box.file(suffix).write_bytes(content)
    box.open(clean=end == "restart")
    for offset in range(20):
        assert box.log.read(offset, 90, isolation=Isolation.LOG_END, min_one_batch=True).records[7] == offset
    assert box.log.log_end_offset == 20


def test_a_missing_index_is_rebuilt_after_a_clean_stop(tmp_path: Path) -> None:
    box = filled(tmp_path)
    before = index_entries(box)
    base = box.log.segments.base_offsets[1]
    box.log.close()
    box.file(".index", base).unlink()
    box.open(clean=True)
    assert [f.file for f in box.findings] == [box.file(".index", base)]
    assert index_entries(box)[1][1] == before[1][1]  # type: ignore[index]  # rows are (base, entries, entries)
    assert box.file(".index", base).exists()
    assert offsets(box) == list(range(12))


def test_an_invalid_index_of_an_old_segment_only_slows_the_search(tmp_path: Path) -> None:
    for content in (b"\xff" * 24, b"\x00\x00\x00\x01\x00\x00\x00\x05", b"\x00\x00\x00\x00\x00\x00\x00\x9a"):
        box = filled(tmp_path / repr(content))
        box.log.close()
        box.file(".index").write_bytes(content)
        box.open(clean=True)
        assert [box.log.read(i, 90, isolation=Isolation.LOG_END, min_one_batch=True).records[7] for i in range(12)] == list(range(12))


def test_an_index_without_its_log_is_removed(tmp_path: Path) -> None:
    box = filled(tmp_path, 2)
    box.log.close()
    orphan = box.file(".index", 99)
    orphan.write_bytes(b"")
    box.open(clean=True)
    assert not orphan.exists()
    assert [f.file for f in box.findings] == [orphan]


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(14), b"\x00\x01" + bytes(20)], ids=repr)
def test_a_corrupt_producer_snapshot_is_removed_and_the_log_replayed(tmp_path: Path, content: bytes) -> None:
    box = filled(tmp_path, 3, LogConfig())
    before = producers(box.log)
    box.log.close()
    box.file(".snapshot", 3).write_bytes(content)
    box.open(clean=True)
    assert [f.file for f in box.findings] == [box.file(".snapshot", 3)]
    assert producers(box.log) == before
    assert len(windows(box.log)[7]) == 3


def test_producer_snapshots_above_the_log_end_are_removed(tmp_path: Path) -> None:
    """Scenario 14: a snapshot of a producer's state may be newer than the truncated log."""
    box = filled(tmp_path, 3, LogConfig())
    box.log.close()
    path = box.file(".log")
    path.write_bytes(path.read_bytes()[:-1])
    box.open(clean=False)
    assert not box.file(".snapshot", 3).exists()
    assert producers(box.log)[7][1] == 1


def test_stray_producer_snapshots_are_removed_except_the_newest(tmp_path: Path) -> None:
    box = filled(tmp_path, 6, LogConfig())
    box.log.close()
    newest = box.file(".snapshot", 6).read_bytes()
    for stray in (2, 3):
        box.file(".snapshot", stray).write_bytes(newest)
    box.open(clean=True)
    assert sorted(p.name for p in box.directory.glob("*.snapshot")) == [f"{6:020d}.snapshot"]


@pytest.mark.parametrize("clean", [True, False], ids=["restart", "crash"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"0\n1\n5 x\n", b"0\n2\n1 0\n"], ids=repr)
def test_a_lost_epoch_file_is_rebuilt_from_the_batches(tmp_path: Path, content: bytes | None, clean: bool) -> None:
    box = LogBox(tmp_path / "topic-0")
    for epoch in (2, 2, 5, 5):
        box.log.append(batch(), origin=Origin.CLIENT, leader_epoch=epoch, now_ms=NOW_MS)
        box.log.roll(NOW_MS)
    box.log.close()
    path = box.directory / "leader-epoch-checkpoint"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    box.open(clean=clean, recovery_point=3)
    assert [tuple(e) for e in box.log.epochs.entries] == [(2, 0), (5, 2)]
    assert path.read_bytes() == b"0\n2\n2 0\n5 2\n"


@pytest.mark.parametrize("lost", ["leader-epoch-checkpoint", "*.snapshot"])
def test_damage_in_an_old_segment_does_not_stop_the_start(tmp_path: Path, lost: str) -> None:
    box = LogBox(tmp_path / "topic-0")
    for sequence in range(6):
        box.append(batch(7, 0, sequence))
        if sequence % 2:
            box.log.roll(NOW_MS)
    box.log.close()
    data = bytearray(box.file(".log", 2).read_bytes())
    data[8:12] = bytes(4)
    box.file(".log", 2).write_bytes(data)
    for path in box.directory.glob(lost):
        path.unlink()
    box.open(clean=True)
    assert box.log.log_end_offset == 6
    assert [tuple(e) for e in box.log.epochs.entries] == [(0, 0)]
    assert box.append(batch(7, 0, 6)).first_offset == 6


def test_epochs_of_truncated_batches_are_removed(tmp_path: Path) -> None:
    box = LogBox(tmp_path / "topic-0")
    for epoch in (2, 5):
        box.log.append(batch(), origin=Origin.CLIENT, leader_epoch=epoch, now_ms=NOW_MS)
    box.log.release()
    path = box.file(".log")
    path.write_bytes(path.read_bytes()[:-1])
    box.open(clean=False)
    assert [tuple(e) for e in box.log.epochs.entries] == [(2, 0)]


def test_the_aborted_index_is_rebuilt_with_transactions_from_earlier_segments(tmp_path: Path) -> None:
    box = LogBox(tmp_path / "topic-0")
    box.append(batch(7, 0, 0, transactional=True))
    box.append(batch(8, 0, 0, transactional=True))
    box.log.roll(NOW_MS)
    box.append(marker(7, 0, committed=False), origin=Origin.COORDINATOR)
    box.append(batch(9, 0, 0, transactional=True))
    box.append(marker(9, 0, committed=False), origin=Origin.COORDINATOR)
    before = [list(s.txn_index.entries()) for s in box.log.segments]
    assert [tuple(e) for e in before[1]] == [(7, 0, 2, 1), (9, 3, 4, 1)]
    box.crash()
    assert [list(s.txn_index.entries()) for s in box.log.segments] == before
    box.restart()
    assert [list(s.txn_index.entries()) for s in box.log.segments] == before


@pytest.mark.parametrize("content", [b"junk", b"\x00\x01" + bytes(32), b"\xff" * 34], ids=["short", "version 1", "ones"])
@pytest.mark.parametrize("is_active", [True, False], ids=["active", "older"])
@pytest.mark.parametrize("clean", [True, False], ids=["restart", "crash"])
def test_an_invalid_aborted_index_is_rebuilt(tmp_path: Path, content: bytes, is_active: bool, clean: bool) -> None:
    box = LogBox(tmp_path / "topic-0")
    box.append(batch(7, 0, 0, transactional=True))
    box.append(marker(7, 0, committed=False), origin=Origin.COORDINATOR)
    if not is_active:
        box.log.roll(NOW_MS)
    box.append(batch(8, 0, 0, transactional=True))
    before = [list(s.txn_index.entries()) for s in box.log.segments]
    box.log.close()
    box.file(".txnindex").write_bytes(content)
    box.open(clean=clean, recovery_point=box.log.recovery_point)
    assert [f.file for f in box.findings] == [box.file(".txnindex")]
    assert [list(s.txn_index.entries()) for s in box.log.segments] == before
    box.append(marker(8, 0, committed=False), origin=Origin.COORDINATOR)
    box.restart()
    assert box.findings == []
    assert box.log.read(0, 1 << 20, isolation=Isolation.READ_COMMITTED).aborted[0] == (7, 0)


# --- the log's start --------------------------------------------------------------------------------------------------


def test_the_log_start_checkpoint_hides_deleted_records(tmp_path: Path) -> None:
    box = filled(tmp_path, 3, LogConfig())
    box.log.close()
    box.open(clean=True, log_start=2)
    assert (box.log.log_start_offset, offsets(box)) == (2, [2])


def test_the_producer_state_of_deleted_records_survives_a_crash(tmp_path: Path) -> None:
    box = LogBox(tmp_path / "topic-0")
    box.append(batch(7, 0, 0, transactional=True))
    box.append(batch(8, 0, 0))
    box.log.roll(NOW_MS)
    box.append(marker(7, 0, committed=True), origin=Origin.COORDINATOR)
    box.append(batch(8, 0, 1))
    box.append(batch())
    box.log.delete_records_before(4)
    box.log.apply_retention(NOW_MS)
    before = producers(box.log)
    box.crash()
    assert producers(box.log) == before
    assert box.log.last_stable_offset == box.log.log_end_offset
    assert box.append(batch(8, 0, 2)).first_offset == 5


def test_a_producer_snapshot_below_the_log_start_is_ignored(tmp_path: Path) -> None:
    box = LogBox(tmp_path / "topic-0")
    box.append(batch(7, 0, 0, transactional=True))
    box.log.roll(NOW_MS)
    box.append(batch(8, 0, 0, transactional=True))
    box.log.release()
    box.open(clean=False, log_start=50)
    assert producers(box.log) == {}
    assert box.append(batch(8, 0, 5)).first_offset == 50


def test_a_log_that_ends_before_its_start_is_emptied(tmp_path: Path) -> None:
    box = filled(tmp_path, 3, LogConfig())
    box.log.close()
    box.open(clean=False, log_start=50)
    assert (box.log.log_start_offset, box.log.log_end_offset) == (50, 50)
    assert [f.file for f in box.findings] == [box.file(".log")]
    assert box.append(batch()).first_offset == 50


# --- power and space --------------------------------------------------------------------------------------------------


def test_flushed_batches_survive_a_power_loss_and_partial_ones_do_not(tmp_path: Path) -> None:
    files = MemoryFiles()
    box = LogBox(tmp_path / "topic-0", SMALL, files)
    for i in range(7):
        box.append(batch(7, 0, i))
    box.log.flush()
    point = box.log.recovery_point
    for i in range(7, 15):
        box.append(batch(7, 0, i))
    files.power_loss()
    box.open(clean=False, recovery_point=point)
    assert box.log.log_end_offset == point == 7
    assert producers(box.log)[7][1] == 6
    assert box.append(batch(7, 0, 7)).first_offset == 7


def test_a_directory_on_a_read_only_disk_can_be_read(tmp_path: Path) -> None:
    files = MemoryFiles()
    box = LogBox(tmp_path / "topic-0", SMALL, files)
    for i in range(12):
        box.append(batch(7, 0, i))
    box.log.close()
    files.make_read_only()
    box.open(clean=True)
    assert offsets(box) == list(range(12))


def test_an_index_that_leads_beyond_a_truncated_log_is_rebuilt(tmp_path: Path) -> None:
    box = LogBox(tmp_path / "t-0", LogConfig(index_interval_bytes=100))
    for _ in range(20):
        box.append(batch(size=100))
    box.log.flush()
    flushed = box.log.recovery_point
    box.log.truncate_to(5, NOW_MS)  # in memory; the index file is written at the next flush
    box.log.release()
    log = box.open(clean=False, recovery_point=flushed)
    assert log.log_end_offset == 5
    assert [header.base_offset for header in box.headers()] == list(range(5))

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.cluster.image_records import to_records
from ottla.broker.cluster.snapshots import Snapshot, SnapshotId, write_snapshot
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.files import FILES
from ottla.broker.storage.snapshot_files import DELETE_DELAY_MS, SnapshotFiles
from ottla.protocol.errors import ProtocolError
from tests.support.metadata_images import level, made_of

OLD, NEW = SnapshotId(5, 1), SnapshotId(9, 2)


def content(append_time_ms: int = 77) -> list[bytes]:
    return list(write_snapshot(Snapshot(append_time_ms, list(to_records(made_of(level(30))))), 1, 30, 1000))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_written_snapshot_is_read_with_its_size_and_time(tmp_path: Path) -> None:
    snapshots = SnapshotFiles(FILES, tmp_path)
    snapshots.write(OLD, content())
    assert snapshots.ids == []
    snapshots.add(OLD)
    assert snapshots.read(OLD).records == [level(30)]
    assert snapshots.append_time_ms(OLD) == 77
    assert snapshots.size_bytes(OLD) == len(b"".join(content()))
    assert names(tmp_path) == [OLD.file_name]


def test_a_start_finds_complete_snapshots_and_removes_the_rest(tmp_path: Path) -> None:
    too_old = SnapshotId(2, 1)
    for name in (NEW.file_name, OLD.file_name, too_old.file_name, OLD.file_name + ".part", OLD.file_name + ".deleted", "other"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / f"{NEW.file_name[:31]}-8242.checkpoint.part").write_bytes(b"of a Kafka")
    snapshots = SnapshotFiles(FILES, tmp_path)
    snapshots.load(log_start_offset=3)
    assert (snapshots.ids, snapshots.newest) == ([OLD, NEW], NEW)
    assert names(tmp_path) == [OLD.file_name, NEW.file_name, "other"]


def test_a_snapshot_gets_its_name_when_it_is_durable() -> None:
    files, directory = MemoryFiles(), Path("/log")
    files.make_dir(directory)
    snapshots = SnapshotFiles(files, directory)
    part = snapshots.begin(OLD)
    part.write(b"ab")
    part.write(b"cd")
    assert not files.exists(snapshots.path(OLD))
    part.freeze()
    files.power_loss()
    assert files.read_bytes(snapshots.path(OLD)) == b"abcd"


def test_a_failed_or_dropped_snapshot_leaves_no_file(tmp_path: Path) -> None:
    snapshots = SnapshotFiles(FILES, tmp_path)
    snapshots.begin(OLD).drop()

    def cut_short() -> list[bytes]:
        raise ValueError("not writable")

    with pytest.raises(ValueError, match="not writable"):
        snapshots.write(OLD, (batch for _ in range(1) for batch in cut_short()))
    assert names(tmp_path) == []


def test_a_retired_snapshot_is_renamed_and_deleted_a_minute_later(tmp_path: Path) -> None:
    snapshots = SnapshotFiles(FILES, tmp_path)
    for each in (OLD, NEW):
        snapshots.write(each, content())
        snapshots.add(each)
    assert snapshots.forget_before(NEW.end_offset, 1000)
    assert not snapshots.forget_before(NEW.end_offset, 1000)
    assert snapshots.ids == [NEW]
    assert names(tmp_path) == [OLD.file_name + ".deleted", NEW.file_name]
    assert list(snapshots.due_deletions(1000 + DELETE_DELAY_MS - 1)) == []
    assert list(snapshots.due_deletions(1000 + DELETE_DELAY_MS)) == [tmp_path / (OLD.file_name + ".deleted")]
    assert list(snapshots.due_deletions(1000 + DELETE_DELAY_MS)) == []


@pytest.mark.parametrize("data", [b"", b"x" * 100, content()[1]], ids=["empty", "no batch", "no header"])
def test_a_file_without_a_header_has_no_time(tmp_path: Path, data: bytes) -> None:
    snapshots = SnapshotFiles(FILES, tmp_path)
    snapshots.write(OLD, [data])
    with pytest.raises(ProtocolError):
        snapshots.append_time_ms(OLD)

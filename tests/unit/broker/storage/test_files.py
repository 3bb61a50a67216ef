"""The same tests for the real file system and the simulated one, and the faults that only the latter has."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage import files as files_module
from ottla.broker.storage.errors import LogDirLocked
from ottla.broker.storage.files import FileEntry, Files


@pytest.fixture(params=[Files, MemoryFiles])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    made: Files = request.param()
    made.make_dir(tmp_path)
    return made


def test_bytes_written_at_a_position_are_read_back_there(files: Files, tmp_path: Path) -> None:
    fd = files.open(tmp_path / "a")
    files.pwrite(fd, [b"head", memoryview(b"tail")], 0)
    files.pwrite(fd, [b"XY"], 3)
    assert files.pread(fd, 100, 0) == b"heaXYail"
    assert files.pread(fd, 3, 2) == b"aXY"
    assert files.pread(fd, 3, 8) == b""
    assert files.size(fd) == 8
    files.close(fd)


def test_a_locked_directory_belongs_to_one_broker_until_released(files: Files, tmp_path: Path) -> None:
    lock = files.lock(tmp_path)
    with pytest.raises(LogDirLocked, match=str(tmp_path)):
        files.lock(tmp_path)
    lock.release()
    files.lock(tmp_path).release()


def test_truncating_removes_the_end(files: Files, tmp_path: Path) -> None:
    fd = files.open(tmp_path / "a")
    files.pwrite(fd, [b"12345"], 0)
    files.truncate(fd, 2)
    assert files.pread(fd, 9, 0) == b"12"
    files.close(fd)


def test_a_duplicated_descriptor_survives_the_original(files: Files, tmp_path: Path) -> None:
    fd = files.open(tmp_path / "a")
    files.pwrite(fd, [b"x"], 0)
    other = files.dup(fd)
    files.close(fd)
    assert files.pread(other, 1, 0) == b"x"
    files.fsync(other)
    files.close(other)
    with pytest.raises(OSError, match="descriptor"):
        files.pread(fd, 1, 0)


def test_an_atomic_write_replaces_the_content_and_leaves_no_temporary_file(files: Files, tmp_path: Path) -> None:
    for content in (b"old content", b"new"):
        files.write_atomic(tmp_path / "c", content)
        assert files.read_bytes(tmp_path / "c") == content
    assert files.scan(tmp_path) == [FileEntry("c", 3, False)]


def test_a_directory_lists_files_with_sizes_and_directories(files: Files, tmp_path: Path) -> None:
    files.make_dir(tmp_path / "sub")
    files.write(tmp_path / "b", b"123", sync=False)
    assert files.scan(tmp_path) == [FileEntry("b", 3, False), FileEntry("sub", 0, True)]
    assert files.exists(tmp_path / "sub")
    assert not files.exists(tmp_path / "none")


def test_a_renamed_directory_keeps_its_files_and_can_be_removed_with_them(files: Files, tmp_path: Path) -> None:
    files.make_dir(tmp_path / "a")
    files.write(tmp_path / "a" / "f", b"1", sync=False)
    files.rename(tmp_path / "a", tmp_path / "b")
    assert files.read_bytes(tmp_path / "b" / "f") == b"1"
    files.remove_tree(tmp_path / "b")
    assert files.scan(tmp_path) == []


def test_removing_twice_succeeds_and_reading_a_removed_file_fails(files: Files, tmp_path: Path) -> None:
    files.write(tmp_path / "f", b"1", sync=True)
    files.sync_path(tmp_path / "f")
    files.sync_dir(tmp_path)
    files.remove(tmp_path / "f")
    files.remove(tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        files.read_bytes(tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        files.open_read(tmp_path / "f")


def test_a_file_in_a_missing_directory_cannot_be_created(files: Files, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(tmp_path / "none" / "f")


def test_short_writes_and_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = files_module.read_some, files_module.write_some
    monkeypatch.setattr(files_module, "read_some", lambda fd, size, at: read(fd, min(size, 3), at))
    monkeypatch.setattr(files_module, "write_some", lambda fd, buffers, at: write(fd, [memoryview(buffers[0])[:2]], at))
    files = Files()
    fd = files.open(tmp_path / "a")
    files.pwrite(fd, [b"header", b"", memoryview(b"tail of it")], 0)
    assert files.pread(fd, 100, 0) == b"headertail of it"
    files.close(fd)


def test_full_disk_stores_the_bytes_that_fit_and_raises() -> None:
    files = MemoryFiles()
    fd = files.open(Path("/f"))
    files.room = 3
    with pytest.raises(OSError, match="No space") as caught:
        files.pwrite(fd, [b"12345"], 0)
    assert caught.value.errno == errno.ENOSPC
    assert files.pread(fd, 9, 0) == b"123"


def test_a_power_loss_keeps_synced_content_under_synced_names() -> None:
    files = MemoryFiles()
    files.write(Path("/kept"), b"synced", sync=True)
    files.write(Path("/nameless"), b"synced", sync=True)
    files.sync_dir(Path("/"))
    files.write(Path("/late"), b"synced", sync=True)
    fd = files.open(Path("/kept"))
    files.pwrite(fd, [b"UNSYNC"], 0)
    files.remove(Path("/nameless"))
    files.power_loss()
    assert files.read_bytes(Path("/kept")) == b"synced"
    assert [e.name for e in files.scan(Path("/"))] == ["kept", "nameless"]


# --- files with several hard links -------------------------------------------------------------------------------------------------


def linked(tmp_path: Path) -> tuple[Path, Path]:
    shared, other = tmp_path / "shared", tmp_path / "other"
    shared.write_bytes(b"content")
    os.link(shared, other)
    return shared, other


def test_a_file_with_several_hard_links_cannot_be_written_through_a_descriptor(tmp_path: Path) -> None:
    files, (shared, other) = Files(), linked(tmp_path)
    fd = files.open(shared)
    for change in (lambda: files.pwrite(fd, [b"X"], 0), lambda: files.truncate(fd, 1)):
        with pytest.raises(OSError, match=r"\[Errno"):
            change()
    files.close(fd)
    assert other.read_bytes() == b"content"


def test_an_owned_file_is_changed_without_the_other_name(tmp_path: Path) -> None:
    files, (shared, other) = Files(), linked(tmp_path)
    files.break_hard_links(shared)
    fd = files.open(shared)
    files.pwrite(fd, [b"X"], 0)
    files.close(fd)
    assert (shared.read_bytes(), other.read_bytes()) == (b"Xontent", b"content")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "shared"]


def test_a_rewritten_file_leaves_the_other_name_alone(tmp_path: Path) -> None:
    files, (shared, other) = Files(), linked(tmp_path)
    files.write(shared, b"new", sync=False)
    assert (shared.read_bytes(), other.read_bytes()) == (b"new", b"content")


def test_a_file_of_one_name_is_not_copied_to_own_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"content")
    inode = path.stat().st_ino
    Files().break_hard_links(path)
    Files().break_hard_links(tmp_path / "none")
    assert path.stat().st_ino == inode

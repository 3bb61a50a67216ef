from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.fatal_files import FatalFiles

ROOT = Path("/data")


def watched() -> tuple[MemoryFiles, FatalFiles, list[OSError]]:
    below, notified = MemoryFiles(), list[OSError]()
    files = FatalFiles(ROOT, below)
    files.make_dir(ROOT)
    files.on_failure = notified.append
    return below, files, notified


def test_a_disk_error_is_raised_and_reported_once() -> None:
    below, files, notified = watched()
    fd = files.open(ROOT / "log")
    files.pwrite(fd, [b"x"], 0)
    below.make_read_only()
    for refused in (lambda: files.pwrite(fd, [b"y"], 1), lambda: files.write_atomic(ROOT / "checkpoint", b"y")):
        with pytest.raises(OSError, match="Read-only"):
            refused()
    assert [error.filename for error in notified] == [str(ROOT / "log")]
    assert files.pread(fd, 2, 0) == b"x"


def test_a_missing_file_is_no_failure_and_a_missing_directory_is_one() -> None:
    below, files, notified = watched()
    with pytest.raises(FileNotFoundError):
        files.read_bytes(ROOT / "checkpoint")
    assert notified == []
    below.dirs.discard(ROOT)
    with pytest.raises(FileNotFoundError):
        files.write_atomic(ROOT / "checkpoint", b"y")
    assert len(notified) == 1

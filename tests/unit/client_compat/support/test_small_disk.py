"""A disk that gets full and has space again; skipped if no file system can be mounted."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from client_compat.support.small_disk import NoSmallDisk, missing, small_disk

WRITTEN = b"x" * 100_000


def test_a_full_disk_takes_nothing_a_freed_one_does_and_all_of_it_outlives_the_disk(tmp_path: Path) -> None:
    if (why := missing()) is not None:
        pytest.skip(why)
    path = tmp_path / "disk"
    with small_disk(path) as disk:
        (path / "first").write_bytes(WRITTEN)
        disk.fill()
        with pytest.raises(OSError, match="No space left") as failed:
            (path / "second").write_bytes(WRITTEN)
        assert failed.value.errno == errno.ENOSPC
        disk.free()
        (path / "second").write_bytes(WRITTEN)
        assert path.is_mount()
    assert not path.is_mount()
    assert [(path / name).read_bytes() for name in ("first", "second")] == [WRITTEN, WRITTEN]


def test_a_disk_that_cannot_be_mounted_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NoSmallDisk, match="only root"), small_disk(tmp_path / "disk"):
        pass

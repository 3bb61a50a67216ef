"""A disk that gets full and has space again; skipped if no file system can be mounted."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from client_compat.support.small_disk import NoSmallDisk, missing, small_disk

WRITTEN = b"x" * 100_000


def test_full_small_disk_rejects_writes_and_its_files_survive_the_unmount(tmp_path: Path) -> None:
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


def test_missing_permission_to_mount_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NoSmallDisk, match="only root"), small_disk(tmp_path / "disk"):
        pass

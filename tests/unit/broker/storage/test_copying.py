from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.broker.storage import copying
from ottla.broker.storage.copying import copy_file


def test_a_copy_has_the_content_and_the_modification_time(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(os.urandom(3 << 20))
    os.utime(source, ns=(1_000_000_000, 2_000_000_000))
    target.write_bytes(bytes(5 << 20))
    copy_file(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_mtime_ns == 2_000_000_000


@pytest.mark.parametrize("size", [0, 1, 4096, 10_000])
def test_a_copy_ends_where_it_is_cut(tmp_path: Path, size: int) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(os.urandom(9_000))
    copy_file(source, target, size)
    assert target.read_bytes() == source.read_bytes()[:size]


def test_a_preallocated_file_stays_a_hole(tmp_path: Path) -> None:
    source, target = tmp_path / "00000000000000000000.index", tmp_path / "copy"
    source.write_bytes(b"entry")
    os.truncate(source, 100 << 20)
    copy_file(source, target)
    assert target.stat().st_size == 100 << 20
    assert target.stat().st_blocks * 512 < 1 << 20
    with target.open("rb") as copied:
        assert copied.read(6) == b"entry\0"


def test_without_help_from_the_kernel_bytes_are_read_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(copying.os, "copy_file_range", refuse)
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(os.urandom(3 << 20))
    copy_file(source, target)
    assert target.read_bytes() == source.read_bytes()

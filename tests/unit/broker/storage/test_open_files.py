from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.storage.files import FILES
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.segment import Segment


def test_segments_are_closed_in_the_order_of_opening(tmp_path: Path) -> None:
    open_files = OpenFiles(2)
    segments = [Segment(FILES, open_files, tmp_path, base, size=0, created_ms=0, fresh=True) for base in range(3)]
    for segment in segments:
        segment.create_files()
    assert len(open_files) == 2
    assert [segment.is_open for segment in segments] == [False, True, True]


def test_a_segment_that_cannot_be_opened_does_not_block_closing_others(tmp_path: Path) -> None:
    open_files = OpenFiles(2)
    missing = Segment(FILES, open_files, tmp_path / "missing", 0, size=0, created_ms=0)
    with pytest.raises(FileNotFoundError):
        missing.pread(1, 0)
    for base in range(5):
        Segment(FILES, open_files, tmp_path, base, size=0, created_ms=0, fresh=True).create_files()
        assert len(open_files) <= 2

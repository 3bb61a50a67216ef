"""After a crash at any point of cleaning or deleting segments, the next start finishes or reverts the operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from tests.support.logs import LogBox, batch

TWO_A_SEGMENT = LogConfig(segment_bytes=2 * len(batch()))


def filled(tmp_path: Path) -> LogBox:
    box = LogBox(tmp_path / "topic-0", TWO_A_SEGMENT)
    for _ in range(7):
        box.append(batch())
    box.log.close()
    return box


def names(box: LogBox) -> set[str]:
    return {p.name for p in box.directory.iterdir()}


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned"])
def test_leftovers_are_removed(tmp_path: Path, suffix: str) -> None:
    box = filled(tmp_path)
    before = names(box)
    for kind in (".log", ".index", ".snapshot"):
        (box.directory / f"{0:020d}{kind}{suffix}").write_bytes(b"leftover")
    box.open(clean=False)
    assert names(box) == before
    assert box.log.log_end_offset == 7


def swap_for_the_first_two(box: LogBox) -> bytes:
    """Return the finished segment (.swap) that replaces offsets 0 to 3 and has only the batch at 3."""
    kept = box.file(".log", 2).read_bytes()[len(batch()) :]
    box.file(".log.swap").write_bytes(kept)
    box.file(".index.swap").write_bytes(b"")
    box.file(".timeindex.swap").write_bytes(b"")
    return kept


def test_a_finished_swap_replaces_its_segments(tmp_path: Path) -> None:
    box = filled(tmp_path)
    kept = swap_for_the_first_two(box)
    box.open(clean=False)
    assert box.log.segments.base_offsets == (0, 4, 6)
    assert box.file(".log").read_bytes() == kept
    assert [h.base_offset for h in box.headers()] == [3, 4, 5, 6]
    assert not any(".swap" in name for name in names(box))


def test_a_swap_with_unfinished_output_is_reverted(tmp_path: Path) -> None:
    box = filled(tmp_path)
    swap_for_the_first_two(box)
    box.file(".log.cleaned").write_bytes(b"half")
    box.open(clean=False)
    assert [h.base_offset for h in box.headers()] == list(range(7))
    assert not any(name.endswith((".swap", ".cleaned")) for name in names(box))


def test_a_swap_before_unfinished_output_is_finished(tmp_path: Path) -> None:
    box = filled(tmp_path)
    swap_for_the_first_two(box)
    box.file(".log.cleaned", 4).write_bytes(b"half")
    box.open(clean=False)
    assert [h.base_offset for h in box.headers()] == [3, 4, 5, 6]


def test_a_swap_with_deleted_segments_is_finished(tmp_path: Path) -> None:
    box = filled(tmp_path)
    swap_for_the_first_two(box)
    for base in (0, 2):
        for path in box.directory.glob(f"{base:020d}.*"):
            if not path.name.endswith(".swap"):
                path.unlink()
    box.open(clean=False)
    assert [h.base_offset for h in box.headers()] == [3, 4, 5, 6]

"""After a crash at any point of cleaning or deleting segments, the next start finishes or reverts the operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from tests.support.logs import LogHarness, batch

TWO_A_SEGMENT = LogConfig(segment_bytes=2 * len(batch()))


def filled(tmp_path: Path) -> LogHarness:
    harness = LogHarness(tmp_path / "topic-0", TWO_A_SEGMENT)
    for _ in range(7):
        harness.append(batch())
    harness.log.close()
    return harness


def names(harness: LogHarness) -> set[str]:
    return {p.name for p in harness.directory.iterdir()}


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned"])
def test_leftovers_are_removed(tmp_path: Path, suffix: str) -> None:
    harness = filled(tmp_path)
    before = names(harness)
    for kind in (".log", ".index", ".snapshot"):
        (harness.directory / f"{0:020d}{kind}{suffix}").write_bytes(b"leftover")
    harness.open(clean=False)
    assert names(harness) == before
    assert harness.log.log_end_offset == 7


def swap_for_the_first_two(harness: LogHarness) -> bytes:
    """Return the finished segment (.swap) that replaces offsets 0 to 3 and has only the batch at 3."""
    kept = harness.file(".log", 2).read_bytes()[len(batch()) :]
    harness.file(".log.swap").write_bytes(kept)
    harness.file(".index.swap").write_bytes(b"")
    harness.file(".timeindex.swap").write_bytes(b"")
    return kept


def test_a_finished_swap_replaces_its_segments(tmp_path: Path) -> None:
    harness = filled(tmp_path)
    kept = swap_for_the_first_two(harness)
    harness.open(clean=False)
    assert harness.log.segments.base_offsets == (0, 4, 6)
    assert harness.file(".log").read_bytes() == kept
    assert [h.base_offset for h in harness.headers()] == [3, 4, 5, 6]
    assert not any(".swap" in name for name in names(harness))


def test_a_swap_with_unfinished_output_is_reverted(tmp_path: Path) -> None:
    harness = filled(tmp_path)
    swap_for_the_first_two(harness)
    harness.file(".log.cleaned").write_bytes(b"half")
    harness.open(clean=False)
    assert [h.base_offset for h in harness.headers()] == list(range(7))
    assert not any(name.endswith((".swap", ".cleaned")) for name in names(harness))


def test_a_swap_before_unfinished_output_is_finished(tmp_path: Path) -> None:
    harness = filled(tmp_path)
    swap_for_the_first_two(harness)
    harness.file(".log.cleaned", 4).write_bytes(b"half")
    harness.open(clean=False)
    assert [h.base_offset for h in harness.headers()] == [3, 4, 5, 6]


def test_a_swap_with_deleted_segments_is_finished(tmp_path: Path) -> None:
    harness = filled(tmp_path)
    swap_for_the_first_two(harness)
    for base in (0, 2):
        for path in harness.directory.glob(f"{base:020d}.*"):
            if not path.name.endswith(".swap"):
                path.unlink()
    harness.open(clean=False)
    assert [h.base_offset for h in harness.headers()] == [3, 4, 5, 6]

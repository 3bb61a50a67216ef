from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ottla.spark_jobs.log_directory import Segment
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.segment_reader import Part
from ottla.spark_jobs.splits import pack, parts
from ottla.spark_jobs.tables.filters import Filters
from tests.support.kafka_logs import PartitionWriter, flip

ALL = Filters()


def written(root: Path, *, index: bool = True, batches: int = 40, value: str = "x" * 500) -> list[int]:
    """Write a log of batches with one record each, and its offset index; return each batch's position in bytes."""
    log = PartitionWriter(root, "t", 0)
    starts, entries = [], b""
    for offset in range(batches):
        starts.append(log.file.stat().st_size)
        log.data(rows=[value])
        if offset and offset % 3 == 0:
            entries += struct.pack(">ii", offset, starts[-1])
    if index:
        log.file.with_suffix(".index").write_bytes(entries + bytes(64))
    return starts


def only(root: Path) -> Segment:
    (segment,) = find_logs(root).segments
    return segment


def bounds(found: list[Part]) -> list[tuple[int, int]]:
    return [(part.start, part.end) for part in found]


@pytest.mark.parametrize("index", [True, False])
def test_segment_is_split_at_batch_boundaries_into_parts_that_cover_it(tmp_path: Path, index: bool) -> None:
    starts = written(tmp_path, index=index)
    segment = only(tmp_path)
    found = bounds(parts(segment, ALL, 4000))
    assert len(found) > 3
    assert [start for start, _ in found] == [0, *[end for _, end in found[:-1]]]
    assert found[-1][1] == segment.size_bytes
    assert {start for start, _ in found} <= set(starts)
    assert all(end - start < 4000 + 3 * 1200 for start, end in found)


def test_index_entry_that_points_to_no_batch_is_not_used(tmp_path: Path) -> None:
    starts = written(tmp_path, index=False)
    wrong = b"".join(struct.pack(">ii", offset, starts[offset] + 7) for offset in range(3, 40, 3))
    (tmp_path / "t-0" / "00000000000000000000.index").write_bytes(wrong)
    found = bounds(parts(only(tmp_path), ALL, 4000))
    assert len(found) > 3
    assert {start for start, _ in found} <= set(starts)


def test_bytes_after_damage_without_an_index_are_one_part(tmp_path: Path) -> None:
    starts = written(tmp_path, index=False)
    flip((tmp_path / "t-0" / "00000000000000000000.log"), starts[20] + 16)
    found = bounds(parts(only(tmp_path), ALL, 4000))
    assert len(found) > 1
    assert all(start <= starts[20] for start, _ in found)


def test_parts_outside_the_requested_offsets_are_omitted(tmp_path: Path) -> None:
    starts = written(tmp_path, value="x" * 500_000)
    segment = only(tmp_path)
    assert bounds(parts(segment, Filters(start_offset=20, end_offset=22), 64 << 20)) == [(starts[18], starts[24])]
    assert parts(segment, Filters(start_offset=20), 1 << 20)[-1].end == segment.size_bytes


def test_segments_outside_the_requested_offsets_are_not_opened(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for _ in range(3):
        log.data(10)
        log.roll()
    log.data(1)
    segments = find_logs(tmp_path).segments
    wanted = [s.base_offset for s in segments if parts(s, Filters(start_offset=10, end_offset=20), 100)]
    assert wanted == [10]


def test_parts_are_distributed_evenly_over_tasks(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for _ in range(40):
        log.data(rows=["x" * 100_000])
        log.roll()
    found = [part for segment in find_logs(tmp_path).segments for part in parts(segment, ALL, 1 << 20)]
    tasks = pack(found, 1 << 20)
    assert sorted(part.segment.base_offset for task in tasks for part in task) == list(range(40))
    assert max(sum(part.end - part.start for part in task) for task in tasks) <= 1 << 20
    assert len(tasks) == 8

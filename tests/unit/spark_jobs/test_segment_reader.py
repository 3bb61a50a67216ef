"""Reading a segment in windows, and going on behind damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.log_files import find_logs
from spark_jobs.segment_reader import RawBatch, Stop, read_segment
from tests.support.kafka_logs import PartitionWriter, flip


def outline(root: Path, window_bytes: int = 1 << 20) -> list[tuple[str, int]]:
    """(what, base offset or bytes) of each item of the only segment."""
    (segment,) = find_logs(root).segments
    items = []
    for item in read_segment(segment, window_bytes):
        if isinstance(item, Stop):
            items.append(("torn" if item.torn else "damage", item.size_bytes))
        else:
            items.append(("bad" if item.crc_ok is False else "batch", item.header.base_offset))
    return items


@pytest.mark.parametrize("window_bytes", [1, 20, 61, 333, 1 << 20])
def test_windows_of_any_size_give_the_same_batches(tmp_path: Path, window_bytes: int) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for count in (1, 30, 2, 7):
        log.data(count)
    assert outline(tmp_path, window_bytes) == [("batch", 0), ("batch", 1), ("batch", 31), ("batch", 33)]


def test_every_single_bit_flip_is_noticed_and_costs_one_batch_at_most(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(1)
    start = log.file.stat().st_size
    log.data(1)
    end = log.file.stat().st_size
    log.data(1)
    for position in (*range(start + 8, start + 12), *range(start + 16, end)):
        flip(log.file, position)
        found = outline(tmp_path)
        assert found[0] == ("batch", 0), position
        assert found[-1] == ("batch", 2), position
        assert [kind for kind, _ in found[1:-1]] in (["bad"], ["damage"]), position
        flip(log.file, position)


def test_bytes_cut_off_at_the_end_of_the_last_segment_are_a_torn_tail(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    start = log.file.stat().st_size
    log.data(3)
    content = log.file.read_bytes()
    for end in (start + 1, start + 11, start + 17, start + 61, len(content) - 1):
        log.file.write_bytes(content[:end])
        assert outline(tmp_path) == [("batch", 0), ("torn", end - start)]


def test_a_batch_keeps_its_bytes_and_position(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    (segment,) = find_logs(tmp_path).segments
    (batch,) = read_segment(segment)
    assert isinstance(batch, RawBatch)
    assert (batch.position, bytes(batch.data)) == (0, log.file.read_bytes())

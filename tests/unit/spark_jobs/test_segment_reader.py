"""Reading a segment in windows of bytes, and continuing behind damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader, read_header
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs import filesystem, segment_reader
from ottla.spark_jobs.filesystem import RandomAccess
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.segment_reader import Run, Stop, crc_matches, file_runs, whole
from tests.support.kafka_logs import PartitionWriter, flip


def outline(root: Path, window_bytes: int = 1 << 20, *, bodies: bool = True) -> list[tuple[str, int]]:
    """Return (kind, base offset or size in bytes) of each item in the only segment."""
    (segment,) = find_logs(root).segments
    items = []
    for item in file_runs(whole(segment), bodies=bodies, window_bytes=window_bytes):
        if isinstance(item, Stop):
            items.append(("torn" if item.torn else "damage", item.size_bytes))
        else:
            right = crc_matches(item, range(item.rows)) if bodies else [True] * item.rows
            items += [("batch" if ok else "bad", base) for ok, base in zip(right, item.headers.base_offsets, strict=True)]
    return items


@pytest.mark.parametrize("window_bytes", [1, 20, 61, 333, 1 << 20])
def test_batches_do_not_depend_on_the_read_window_size(tmp_path: Path, window_bytes: int) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for count in (1, 30, 2, 7):
        log.data(count)
    assert outline(tmp_path, window_bytes) == [("batch", 0), ("batch", 1), ("batch", 31), ("batch", 33)]


def test_every_bit_flip_is_detected_and_costs_at_most_one_batch(tmp_path: Path) -> None:
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


def test_truncated_last_batch_of_the_last_segment_is_a_torn_tail(tmp_path: Path) -> None:
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
    (run,) = file_runs(whole(segment))
    assert isinstance(run, Run)
    assert (run.position, bytes(run.batch(0))) == (0, log.file.read_bytes())


@pytest.mark.parametrize("window_bytes", [1, 70, 200, 1 << 20])
def test_reading_headers_only_gives_the_same_outline(tmp_path: Path, window_bytes: int) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(2)
    log.data(rows=["x" * 1_100_000])
    log.data(1)
    torn = log.file.stat().st_size
    log.data(40)
    log.file.write_bytes(log.file.read_bytes()[:-3])
    expected = [("batch", 0), ("batch", 2), ("batch", 3), ("torn", log.file.stat().st_size - torn)]
    assert outline(tmp_path, window_bytes, bodies=False) == outline(tmp_path) == expected


def test_length_beyond_the_next_batch_costs_only_its_own_batch(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    starts = []
    for _ in range(4):
        starts.append(log.file.stat().st_size if log.file.exists() else 0)
        log.data(3)
    flip(log.file, starts[1] + 11)
    for bodies in (True, False):
        assert outline(tmp_path, bodies=bodies) == [("batch", 0), ("damage", starts[2] - starts[1]), ("batch", 6), ("batch", 9)]


def test_file_truncated_during_the_read_ends_at_its_current_end(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    start = log.file.stat().st_size
    log.data(3)
    (segment,) = find_logs(tmp_path).segments
    log.file.write_bytes(log.file.read_bytes()[: start + 20])
    first, stop = file_runs(whole(segment))
    assert isinstance(first, Run)
    assert isinstance(stop, Stop)
    assert (first.rows, stop.position) == (1, start)


def headers_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the reader of segments adds the position of each header that it decodes one by one."""
    reads: list[int] = []

    def counted(data: bytes, at: int = 0) -> BatchHeader:
        reads.append(at)
        return read_header(data, at)

    monkeypatch.setattr(segment_reader, "read_header", counted)
    return reads


def stop_at(root: Path, data: bytes) -> Stop:
    """Return what the reader reports of these bytes behind a batch."""
    log = PartitionWriter(root, "t", 0)
    log.data(1)
    with log.file.open("ab") as file:
        file.write(data)
    (segment,) = find_logs(root).segments
    _, stop = file_runs(whole(segment))
    assert isinstance(stop, Stop)
    return stop


def test_bytes_that_are_all_magics_are_searched_without_reading_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = headers_read(monkeypatch)
    stop = stop_at(tmp_path, b"\2" * 100_000)
    assert (stop.size_bytes, "given up" in stop.reason) == (100_000, False)
    assert len(reads) < 10


def test_the_number_of_headers_that_the_search_reads_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = bytearray(build_batch([SimpleRecord(None, b"")], base_offset=100)[:HEADER_BYTES])
    header[8:12] = (HEADER_BYTES - LOG_OVERHEAD).to_bytes(4, "big")  # the CRC is that of a longer batch
    reads = headers_read(monkeypatch)
    monkeypatch.setattr(segment_reader, "SEARCH_BYTES", 0)
    stop = stop_at(tmp_path, bytes(100) + header * 1_000)
    assert "given up" in stop.reason
    assert 900 < len(reads) < 1_000


def test_batches_between_damage_are_found_by_reading_little_more_than_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for _ in range(50):
        log.data(1)
        with log.file.open("ab") as file:
            file.write(bytes(7))
    with log.file.open("ab") as file:
        file.write(bytes(4 << 20))
    sizes: list[int] = []

    class Counted(RandomAccess):
        def read_at(self, position: int, size: int) -> bytes:
            sizes.append(size)
            return super().read_at(position, size)

        def read_into(self, position: int, buffer: memoryview) -> int:
            sizes.append(len(buffer))
            return super().read_into(position, buffer)

    monkeypatch.setattr(filesystem, "RandomAccess", Counted)
    assert len(outline(tmp_path)) == 100
    assert sizes
    assert sum(sizes) < 8 * log.file.stat().st_size

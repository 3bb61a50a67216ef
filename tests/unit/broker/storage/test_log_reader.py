"""Reading a damaged log raises an error with the position, and never returns bytes that cannot be a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.files import Files
from ottla.broker.storage.log_values import MAX_TIMESTAMP, Isolation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import read_header
from ottla.protocol.records.compression import BLOCKS_MIN, Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.logs import NOW_MS, LogHarness, batch
from tests.support.tiny_blocks import in_many_blocks

BATCH = len(batch())
LENGTH_AT = 8


@pytest.fixture
def harness(tmp_path: Path) -> LogHarness:
    """Two segments of three batches each."""
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=3 * BATCH))
    for _ in range(6):
        harness.append(batch())
    return harness


def overwrite(harness: LogHarness, offset: int, at: int, data: bytes) -> None:
    with harness.file(".log", offset // 3 * 3).open("r+b") as file:
        file.seek(offset % 3 * BATCH + at)
        file.write(data)


def read(harness: LogHarness, offset: int, *, max_bytes: int = 1 << 20, min_one_batch: bool = True) -> bytes | ErrorCode:
    try:
        return harness.log.read(offset, max_bytes, isolation=Isolation.READ_UNCOMMITTED, min_one_batch=min_one_batch).records
    except Rejected as rejected:
        return rejected.code


LENGTHS = {"zero": 0, "negative": -1, "too small": 13, "most negative": -(2**31), "past the end": 1 << 20, "greatest": 2**31 - 1}


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize("offset", range(6))
@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_a_batch_with_an_impossible_length_is_corrupt(harness: LogHarness, offset: int, length: int, max_bytes: int) -> None:
    assert isinstance(read(harness, offset), bytes)
    overwrite(harness, offset, LENGTH_AT, length.to_bytes(4, "big", signed=True))
    assert read(harness, offset, max_bytes=max_bytes) is ErrorCode.CORRUPT_MESSAGE
    assert read(harness, offset, max_bytes=max_bytes, min_one_batch=False) is ErrorCode.CORRUPT_MESSAGE


def test_a_block_of_zeros_is_corrupt_and_other_segments_are_readable(harness: LogHarness) -> None:
    overwrite(harness, 0, 0, bytes(BATCH))
    assert read(harness, 0) is ErrorCode.CORRUPT_MESSAGE
    assert read(harness, 3) == harness.file(".log", 3).read_bytes()


def test_a_batch_with_changed_records_is_returned_to_the_reader(harness: LogHarness) -> None:
    overwrite(harness, 1, BATCH - 1, b"?")
    assert read(harness, 1) == harness.file(".log", 0).read_bytes()[BATCH:]


def test_damage_after_the_first_batch_is_found_by_the_next_read(harness: LogHarness) -> None:
    overwrite(harness, 1, LENGTH_AT, bytes(4))
    assert read(harness, 0) == harness.file(".log", 0).read_bytes()
    assert read(harness, 1) is ErrorCode.CORRUPT_MESSAGE
    assert read(harness, 2) is ErrorCode.CORRUPT_MESSAGE
    assert harness.append(batch(), now_ms=NOW_MS).first_offset == 6


class CountedReads(Files):
    """Files that count reads."""

    reads = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self.reads += 1
        return super().pread(fd, size, position)


def test_a_read_of_0_bytes_does_not_read_the_disk(tmp_path: Path) -> None:
    files = CountedReads()
    harness = LogHarness(tmp_path / "topic-0", files=files)
    harness.append(batch())
    before = files.reads
    assert read(harness, 0, max_bytes=0, min_one_batch=False) == b""
    assert files.reads == before


LARGE = {
    "many records": build_batch([SimpleRecord(None, b"", NOW_MS + i // 20_000) for i in range(20_001)], codec=Codec.GZIP),
    "many bytes": build_batch([SimpleRecord(None, bytes(700_000), NOW_MS + i) for i in range(2)]),
    "compressed": build_batch([SimpleRecord(None, bytes(700_000), NOW_MS + i) for i in range(2)], codec=Codec.GZIP),
    "many blocks": in_many_blocks([SimpleRecord(None, b"", NOW_MS + i) for i in range(2)], BLOCKS_MIN),
}


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE.keys())
def test_the_search_of_a_large_batch_for_a_timestamp_is_left_to_the_caller(tmp_path: Path, large: bytes) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(max_message_bytes=2_000_000))
    harness.append(batch(timestamp=NOW_MS - 1))
    harness.append(large)
    for timestamp in (NOW_MS + 1, MAX_TIMESTAMP):
        search = harness.log.search_timestamp(timestamp, Isolation.LOG_END)
        work = next(search)
        with pytest.raises(StopIteration) as end:
            search.send(work)
        assert end.value.value == (NOW_MS + 1, read_header(large).record_count, 0)
    with pytest.raises(StopIteration):
        next(harness.log.search_timestamp(NOW_MS - 1, Isolation.LOG_END))


def test_a_search_continues_in_a_log_that_changed_after_a_large_batch(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    harness.append(build_batch([SimpleRecord(None, b"", NOW_MS + (i == 0)) for i in range(20_001)]))
    harness.append(batch(timestamp=NOW_MS + 2))
    harness.log.roll(NOW_MS)
    harness.append(batch(timestamp=NOW_MS + 3))
    harness.log.delete_records_before(1)
    search = harness.log.search_timestamp(NOW_MS + 1, Isolation.LOG_END)
    work = next(search)
    harness.log.delete_records_before(20_002)
    harness.log.apply_retention(NOW_MS)
    assert len(harness.log.segments) == 1
    with pytest.raises(StopIteration) as end:
        search.send(work)
    assert end.value.value == (NOW_MS + 3, 20_002, 0)


def test_a_search_does_not_continue_in_a_log_that_went_offline_after_a_large_batch(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    harness.append(build_batch([SimpleRecord(None, b"", NOW_MS + (i == 0)) for i in range(20_001)]))
    harness.append(batch(timestamp=NOW_MS + 2))
    harness.log.delete_records_before(1)
    search = harness.log.search_timestamp(NOW_MS + 1, Isolation.LOG_END)
    work = next(search)
    harness.log.fail(OSError("the topic was deleted"))
    with pytest.raises(Rejected) as rejected:
        search.send(work)
    assert rejected.value.code is ErrorCode.KAFKA_STORAGE_ERROR

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.files import FILES
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.segment import Segment, any_header
from ottla.protocol.records.errors import CorruptBatch
from tests.support.logs import NOW_MS, LogHarness, batch

SIZE = len(batch())


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    """A segment with ten batches of one record each, and an index entry for every second batch."""
    harness = LogHarness(tmp_path / "topic-0", LogConfig(index_interval_bytes=SIZE))
    for i in range(10):
        harness.append(batch(timestamp=NOW_MS + i))
    return harness.log.segments.active


def test_it_is_rolled_by_size_offset_or_age_but_never_while_empty(segment: Segment, tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=11 * SIZE, segment_ms=100)

    def rolls(size: int = SIZE, timestamp: int = NOW_MS, last_offset: int = 10) -> bool:
        return segment.should_roll(config, size, timestamp, last_offset, NOW_MS)

    assert not rolls()
    assert rolls(size=SIZE + 1)
    assert rolls(last_offset=2**31)
    assert not rolls(last_offset=2**31 - 1)
    assert not rolls(timestamp=NOW_MS + 100)
    assert rolls(timestamp=NOW_MS + 101)
    empty = Segment(FILES, OpenFiles(1), tmp_path, 50, size=0, created_ms=0, fresh=True)
    assert not empty.should_roll(config, 10**9, NOW_MS, 2**40, NOW_MS)


def test_jitter_shortens_the_time_to_the_roll(segment: Segment) -> None:
    segment.jitter_ms = 60
    config = LogConfig(segment_ms=100)
    assert not segment.should_roll(config, 1, NOW_MS + 40, 10, NOW_MS)
    assert segment.should_roll(config, 1, NOW_MS + 41, 10, NOW_MS)


def test_compaction_lag_shortens_the_time_to_the_roll_of_a_compacted_log(segment: Segment) -> None:
    config = LogConfig(segment_ms=1_000, max_compaction_lag_ms=100, cleanup_policy=frozenset({"compact"}))
    assert not segment.should_roll(config, 1, NOW_MS + 100, 10, NOW_MS)
    assert segment.should_roll(config, 1, NOW_MS + 101, 10, NOW_MS)
    assert not segment.should_roll(replace(config, cleanup_policy=frozenset({"delete"})), 1, NOW_MS + 101, 10, NOW_MS)


def test_the_first_batch_never_has_an_index_entry(segment: Segment) -> None:
    assert [segment.offset_index.entry(i) for i in range(4)] == [(2, 2 * SIZE), (4, 4 * SIZE), (6, 6 * SIZE), (8, 8 * SIZE)]


def test_every_batch_is_found_by_any_of_its_offsets(segment: Segment) -> None:
    for offset in range(10):
        found = segment.find(offset)
        assert found is not None
        assert found[0] == offset * SIZE
    assert segment.find(10) is None


@pytest.mark.parametrize("chunk", [61, 100, 8192])
def test_batches_are_iterated_for_any_read_size(segment: Segment, chunk: int) -> None:
    assert [p for p, _ in segment.batches(chunk=chunk)] == [i * SIZE for i in range(10)]


def test_whole_batches_are_iterated_across_reads(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.storage.segment.REPLAY_BYTES", SIZE + 70)
    assert [(p, len(data)) for p, _, data in segment.whole_batches(SIZE)] == [(i * SIZE, SIZE) for i in range(1, 10)]


def test_a_batch_that_goes_past_the_end_is_corrupt(segment: Segment) -> None:
    segment.size -= 1
    with pytest.raises(CorruptBatch, match="byte"):
        list(segment.batches())


def test_truncating_restores_indexes_and_largest_timestamp(segment: Segment) -> None:
    assert segment.truncate_to(5) == 5 * SIZE
    assert (segment.size, segment.path.stat().st_size) == (5 * SIZE, 5 * SIZE)
    assert segment.max_timestamp == NOW_MS + 4
    assert segment.offset_index.last() == (4, 4 * SIZE)
    assert segment.truncate_to(5) == 0


def test_resuming_finds_the_end_and_the_largest_timestamp(segment: Segment) -> None:
    segment.finish()
    segment.release()
    again = Segment(FILES, OpenFiles(1), segment.path.parent, 0, size=segment.size, created_ms=0)
    assert again.resume() == 10
    assert (again.max_timestamp, again.offset_of_max_timestamp) == (NOW_MS + 9, 9)


def test_without_timestamps_retention_uses_the_file_time(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    harness.append(batch(timestamp=-1))
    segment = harness.log.segments.active
    assert segment.largest_timestamp() == segment.path.stat().st_mtime_ns // 1_000_000


def test_a_legacy_message_is_skipped_by_its_length() -> None:
    header = any_header(b"".join([(7).to_bytes(8, "big"), (14).to_bytes(4, "big"), b"CRC!", b"\x01", bytes(60)]))
    assert (header.magic, header.base_offset, header.last_offset, header.size_bytes) == (1, 7, 7, 26)
    with pytest.raises(CorruptBatch, match="magic 3"):
        any_header(bytes(16) + b"\x03" + bytes(60))

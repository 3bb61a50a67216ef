"""Appending, rolling, reading, deleting, truncating. Flushing and disk errors: test_flush.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.log_values import NOT_FOUND, Isolation
from ottla.broker.storage.producer_state import Origin
from ottla.broker.storage.segment import Segment
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import BatchHeader, crc_ok, read_header, split_batches
from tests.support.logs import NOW_MS, LogHarness, batch, marker, producers, run_due_deletions

BATCH = len(batch())
"""Bytes of a batch with one record."""


@pytest.fixture
def harness(tmp_path: Path) -> LogHarness:
    return LogHarness(tmp_path / "topic-0")


def read(harness: LogHarness, offset: int, max_bytes: int = 1 << 20, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[int]:
    """Return the base offsets of the whole batches that one read returns."""
    records = harness.log.read(offset, max_bytes, isolation=isolation, min_one_batch=True).records
    return [h.base_offset for _, h in split_batches(records)]


def code_of(caught: pytest.ExceptionInfo[Rejected]) -> ErrorCode:
    return caught.value.code


# --- append ------------------------------------------------------------------------------------------------------------------


def test_a_batch_is_stored_verbatim_but_for_base_offset_and_leader_epoch(harness: LogHarness) -> None:
    harness.append(batch(count=2))
    data = batch(5, 1, 0, count=3)
    info = harness.log.append(data, origin=Origin.CLIENT, leader_epoch=9, now_ms=NOW_MS)
    stored = harness.log.segments.active.pread(1000, harness.log.size_bytes - len(data))
    header = read_header(stored)
    assert (info.first_offset, info.last_offset, info.log_append_time_ms, info.duplicate) == (2, 4, -1, False)
    assert (header.base_offset, header.partition_leader_epoch) == (2, 9)
    assert stored[16:] == data[16:]
    assert crc_ok(stored, header)


def test_a_batch_in_pieces_is_stored_as_in_one(harness: LogHarness) -> None:
    data = batch(5, 1, 0, count=3)
    for pieces in ((data[16:],), (data[16:61], memoryview(data)[61:]), (data[16:20], data[20:70], data[70:])):
        info = harness.log.append_parsed(read_header(data), pieces, origin=Origin.COORDINATOR, leader_epoch=0, now_ms=NOW_MS)
        stored = harness.log.segments.active.pread(1000, harness.log.size_bytes - len(data))
        assert read_header(stored).base_offset == info.first_offset
        assert stored[16:] == data[16:]
    assert harness.log.log_end_offset == 9


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_appended(harness: LogHarness, kind: type) -> None:
    assert harness.append(kind(batch())).first_offset == 0
    assert read(harness, 0) == [0]


def test_appending_does_not_move_the_high_watermark(harness: LogHarness) -> None:
    harness.log.append(batch(), origin=Origin.CLIENT, leader_epoch=0, now_ms=NOW_MS)
    assert (harness.log.high_watermark, harness.log.log_end_offset) == (0, 1)
    harness.log.advance_high_watermark(1)
    harness.log.advance_high_watermark(0)
    assert harness.log.high_watermark == 1


def test_bytes_that_are_not_one_batch_are_refused(harness: LogHarness) -> None:
    for data in (batch() + batch(), batch() + b"x", batch()[:-1]):
        with pytest.raises(Rejected) as caught:
            harness.append(data)
        assert code_of(caught) is ErrorCode.CORRUPT_MESSAGE
    assert harness.log.size_bytes == 0


def test_a_batch_larger_than_a_segment_is_refused_before_anything_rolls(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=BATCH + 10))
    harness.append(batch())
    with pytest.raises(Rejected) as caught:
        harness.append(batch(size=50))
    assert code_of(caught) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert len(harness.log.segments) == 1


def test_a_new_configuration_applies_from_the_next_append(harness: LogHarness) -> None:
    harness.append(batch())
    harness.log.config = LogConfig(segment_bytes=BATCH)
    harness.append(batch())
    assert harness.log.segments.base_offsets == (0, 1)


# --- rolling -------------------------------------------------------------------------------------------------------------------


def test_a_segment_never_exceeds_segment_bytes(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=3 * BATCH))
    for _ in range(7):
        harness.append(batch())
    assert harness.log.segments.base_offsets == (0, 3, 6)
    assert [s.size for s in harness.log.segments] == [3 * BATCH, 3 * BATCH, BATCH]


def test_a_duplicate_can_roll_a_segment(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=BATCH))
    harness.append(batch(7, 0, 0))
    assert harness.append(batch(7, 0, 0)).duplicate
    assert harness.log.segments.base_offsets == (0, 1)


def test_rolling_by_time_follows_the_records_timestamps_not_the_clock(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_ms=1000))
    harness.append(batch(timestamp=5_000), now_ms=NOW_MS)
    harness.append(batch(timestamp=6_000), now_ms=NOW_MS + 10_000_000)
    assert len(harness.log.segments) == 1
    harness.append(batch(timestamp=4_000), now_ms=NOW_MS)
    assert len(harness.log.segments) == 1
    harness.append(batch(timestamp=6_001), now_ms=NOW_MS)
    assert harness.log.segments.base_offsets == (0, 3)


def test_rolling_by_time_remembers_the_first_timestamp_across_a_restart(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_ms=1000))
    harness.append(batch(timestamp=5_000))
    harness.restart()
    harness.append(batch(timestamp=6_001))
    assert len(harness.log.segments) == 2


def test_without_timestamps_a_segment_rolls_by_its_age(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_ms=1000))
    harness.append(batch(timestamp=-1), now_ms=NOW_MS)
    harness.append(batch(timestamp=-1), now_ms=NOW_MS + 1000)
    assert len(harness.log.segments) == 1
    harness.append(batch(timestamp=-1), now_ms=NOW_MS + 1001)
    assert len(harness.log.segments) == 2


def test_a_full_index_rolls_the_segment(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(index_interval_bytes=0, segment_index_bytes=36))
    for i in range(8):
        harness.append(batch(timestamp=NOW_MS + i))
    # The time index holds three entries, of which the last slot is kept for the close.
    assert harness.log.segments.base_offsets == (0, 3, 6)


def test_offsets_too_large_for_an_index_entry_roll_the_segment(harness: LogHarness) -> None:
    harness.append(batch())
    far = bytearray(batch())
    far[0:8] = (2**31).to_bytes(8, "big")
    harness.append(bytes(far), origin=Origin.REPLICATION)
    assert harness.log.log_end_offset == 2**31 + 1
    assert harness.log.segments.base_offsets == (0, 1)


# --- reading -------------------------------------------------------------------------------------------------------------------


def test_a_read_from_the_middle_of_a_batch_returns_the_whole_batch(harness: LogHarness) -> None:
    harness.append(batch(count=5))
    harness.append(batch(count=5))
    assert read(harness, 3) == [0, 5]
    assert read(harness, 9) == [5]


@pytest.mark.parametrize("offset", [-1, 3])
def test_an_offset_outside_the_log_is_out_of_range(harness: LogHarness, offset: int) -> None:
    harness.append(batch(count=2))
    with pytest.raises(Rejected) as caught:
        read(harness, offset)
    assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_above_the_high_watermark_is_empty(harness: LogHarness) -> None:
    harness.append(batch())
    harness.log.append(batch(), origin=Origin.CLIENT, leader_epoch=0, now_ms=NOW_MS)
    assert read(harness, 1) == read(harness, 2) == []
    assert read(harness, 0) == [0]
    assert read(harness, 0, isolation=Isolation.LOG_END) == [0, 1]


def test_a_read_stops_at_the_end_of_its_segment(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=3 * BATCH))
    for _ in range(5):
        harness.append(batch())
    assert read(harness, 1) == [1, 2]
    assert read(harness, 3) == [3, 4]


def test_the_limit_may_truncate_the_last_batch_and_never_the_first(harness: LogHarness) -> None:
    for _ in range(3):
        harness.append(batch())
    log = harness.log
    for limit in range(3 * BATCH + 1):
        records = log.read(0, limit, isolation=Isolation.READ_UNCOMMITTED).records
        assert len(records) == (limit if limit >= BATCH else 0)
        assert len(log.read(0, limit, isolation=Isolation.READ_UNCOMMITTED, min_one_batch=True).records) == max(limit, BATCH)


@pytest.mark.parametrize("interval", [0, 150, 4096])
def test_every_offset_is_found_through_any_index(tmp_path: Path, interval: int) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(index_interval_bytes=interval, segment_bytes=1000))
    for _ in range(40):
        harness.append(batch(count=3))
    for offset in [*range(120), *reversed(range(120))]:
        assert read(harness, offset, 1) == [offset // 3 * 3]


def test_a_read_reports_whether_later_segments_have_more(harness: LogHarness) -> None:
    for _ in range(2):
        harness.append(batch())
        harness.log.roll(NOW_MS)
    harness.append(batch(5, 0, 0, transactional=True))

    def older(offset: int, isolation: Isolation, max_bytes: int = 1 << 20) -> bool:
        return harness.log.read(offset, max_bytes, isolation=isolation).on_older_segment

    assert [older(offset, Isolation.READ_UNCOMMITTED) for offset in range(4)] == [True, True, False, False]
    assert older(0, Isolation.READ_UNCOMMITTED, 0)
    harness.log.advance_high_watermark(3)
    assert [older(offset, Isolation.READ_COMMITTED) for offset in range(3)] == [True, True, False]


def test_a_reader_at_the_end_sees_each_new_batch_without_searching(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.append(batch())
    assert read(harness, 0) == [0]
    monkeypatch.setattr("ottla.broker.storage.segment.Segment.find", None)
    for i in range(1, 50):
        harness.append(batch())
        assert read(harness, i) == [i]


def test_a_truncated_read_does_not_affect_the_next(harness: LogHarness) -> None:
    for _ in range(3):
        harness.append(batch())
    assert read(harness, 0, 2 * BATCH) == [0, 1]
    harness.append(batch())
    assert read(harness, 3) == [3]


def test_a_read_returns_the_logs_offsets(harness: LogHarness) -> None:
    harness.append(batch(count=3))
    harness.append(batch(5, 0, 0, transactional=True))
    harness.log.delete_records_before(1)
    result = harness.log.read(1, 1000, isolation=Isolation.READ_COMMITTED)
    assert (result.high_watermark, result.last_stable_offset, result.log_start_offset, result.aborted) == (4, 3, 1, [])
    assert len(list(split_batches(result.records))) == 1


def test_read_committed_ends_at_the_open_transaction_and_lists_aborted_ones(harness: LogHarness) -> None:
    harness.append(batch(5, 0, 0, transactional=True))
    harness.append(batch(6, 0, 0, transactional=True))
    harness.append(marker(5, 0, committed=False), origin=Origin.COORDINATOR)
    harness.append(batch(7, 0, 0, transactional=True))
    committed = harness.log.read(0, 1000, isolation=Isolation.READ_COMMITTED)
    assert [h.base_offset for _, h in split_batches(committed.records)] == [0]
    assert committed.aborted == [(5, 0)]
    assert harness.log.read(0, 1000, isolation=Isolation.READ_UNCOMMITTED).aborted == []
    harness.append(marker(6, 0, committed=True), origin=Origin.COORDINATOR)
    assert read(harness, 0, isolation=Isolation.READ_COMMITTED) == [0, 1, 2]


def test_aborted_transactions_are_found_in_later_segments(harness: LogHarness) -> None:
    harness.append(batch(5, 0, 0, transactional=True))
    harness.log.roll(NOW_MS)
    harness.append(marker(5, 0, committed=False), origin=Origin.COORDINATOR)
    assert harness.log.read(0, 1000, isolation=Isolation.READ_COMMITTED).aborted == [(5, 0)]
    assert harness.log.read(1, 1000, isolation=Isolation.READ_COMMITTED).aborted == [(5, 0)]


# --- timestamps ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [LogConfig(), LogConfig(index_interval_bytes=0, segment_bytes=300)])
def test_a_timestamp_search_finds_the_first_record_not_older(tmp_path: Path, config: LogConfig) -> None:
    harness = LogHarness(tmp_path / "topic-0", config)
    for first in (1000, 3000, 2000, 5000):
        harness.append(batch(count=3, timestamp=first))
    found = {ts: harness.log.offset_for_timestamp(ts) for ts in (0, 1000, 1002, 1003, 3001, 3002, 4000, 5002)}
    assert {ts: f.offset for ts, f in found.items()} == {0: 0, 1000: 0, 1002: 2, 1003: 3, 3001: 4, 3002: 5, 4000: 9, 5002: 11}
    assert {ts: f.timestamp for ts, f in found.items()}[4000] == 5000
    assert harness.log.offset_for_timestamp(5003) == NOT_FOUND


def test_a_timestamp_is_searched_also_behind_a_segment_that_lacks_it(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig())
    harness.append(batch(count=2, timestamp=-1))
    harness.log.roll(NOW_MS)
    for first in (5000, 1000):
        harness.append(batch(timestamp=first))
    harness.log.roll(NOW_MS)
    harness.append(batch(timestamp=6000))
    assert harness.log.offset_for_timestamp(4000)[:2] == (5000, 2)
    harness.log.delete_records_before(3)
    assert harness.log.offset_for_timestamp(4000)[:2] == (6000, 4)


@pytest.mark.parametrize("index_interval", [0, 1 << 20])
def test_a_timestamp_search_over_many_batches_pauses_and_continues_where_it_was(
    tmp_path: Path, index_interval: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment is searched because of a deleted record with a late timestamp."""
    monkeypatch.setattr("ottla.broker.core.limits.SEARCHED_AT_ONCE_BATCHES", 10)
    headers: list[int] = []
    unpatched = Segment.batches

    def counting(segment: Segment, start: int = 0, **options: int) -> Iterator[tuple[int, BatchHeader]]:
        for position, header in unpatched(segment, start, **options):
            headers.append(position)
            yield position, header

    monkeypatch.setattr(Segment, "batches", counting)
    harness = LogHarness(tmp_path / "topic-0", LogConfig(index_interval_bytes=index_interval))
    harness.append(batch(timestamp=9000))
    for _ in range(95):
        harness.append(batch(timestamp=1000))
    harness.append(batch(timestamp=6000))
    harness.log.delete_records_before(1)
    search = harness.log.search_timestamp(5000, Isolation.READ_UNCOMMITTED)
    headers.clear()
    work, found, pauses = next(search), None, [len(headers)]
    while found is None:
        try:
            work = search.send(work)
        except StopIteration as end:
            found = end.value
        else:
            pauses.append(len(headers) - sum(pauses))
    assert found[:2] == (6000, 96)
    assert len(pauses) == 9
    assert max(pauses) <= 11


def test_the_special_timestamps_mean_kafkas_offsets(harness: LogHarness) -> None:
    for first in (1000, 3000, 2000):
        harness.append(batch(count=3, timestamp=first))
    harness.log.delete_records_before(1)
    assert harness.log.offset_for_timestamp(-1)[:2] == (-1, 9)
    assert harness.log.offset_for_timestamp(-2) == harness.log.offset_for_timestamp(-4) == (-1, 1, 0)
    assert harness.log.offset_for_timestamp(-3) == (3002, 5, 0)
    assert harness.log.offset_for_timestamp(-5) == NOT_FOUND


def test_the_largest_timestamp_is_known_while_its_segment_exists(tmp_path: Path) -> None:
    """As in Kafka, this includes a record that DeleteRecords has removed."""
    harness = LogHarness(tmp_path / "topic-0", LogConfig(index_interval_bytes=0))
    for first in (1000, 5000, 2000, 3000, 1000):
        harness.append(batch(count=3, timestamp=first))
        if first == 3000:
            harness.log.roll(NOW_MS)
    found = {}
    for start in (4, 6, 12, 15):
        harness.log.delete_records_before(start)
        found[start] = harness.log.offset_for_timestamp(-3)[:2]
    assert found == dict.fromkeys((4, 6, 12, 15), (5002, 5))
    harness.log.apply_retention(NOW_MS)
    assert harness.log.offset_for_timestamp(-3)[:2] == (-1, -1)


def test_without_timestamps_the_first_record_has_the_largest(harness: LogHarness) -> None:
    harness.append(batch(timestamp=-1))
    harness.append(batch(timestamp=-1))
    assert harness.log.offset_for_timestamp(-3)[:2] == (-1, 0)


def test_a_timestamp_of_0_is_valid_after_a_restart(harness: LogHarness) -> None:
    harness.append(batch(timestamp=0))
    harness.restart()
    assert harness.log.offset_for_timestamp(0) == harness.log.offset_for_timestamp(-3) == (0, 0, 0)


def test_timestamps_are_searched_only_within_the_readers_bound(harness: LogHarness) -> None:
    harness.append(batch(timestamp=1000))
    harness.append(batch(5, 0, 0, timestamp=2000, transactional=True))
    assert harness.log.offset_for_timestamp(2000).offset == 1
    assert harness.log.offset_for_timestamp(2000, isolation=Isolation.READ_COMMITTED) == NOT_FOUND
    assert harness.log.offset_for_timestamp(-1, isolation=Isolation.READ_COMMITTED).offset == 1


# --- deleting ------------------------------------------------------------------------------------------------------------------


def segmented(tmp_path: Path, **config: int) -> LogHarness:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=2 * BATCH, **config))  # type: ignore[arg-type]  # ints only
    for i in range(7):
        harness.append(batch(timestamp=NOW_MS + i * 1000))
    return harness


def test_retention_by_size_keeps_at_least_retention_bytes(tmp_path: Path) -> None:
    harness = segmented(tmp_path, retention_bytes=4 * BATCH)
    assert harness.log.apply_retention(NOW_MS) == 2 * BATCH
    assert harness.log.log_start_offset == 2
    with pytest.raises(Rejected):
        read(harness, 1)
    assert read(harness, 2) == [2, 3]


def test_retention_by_time_uses_a_segments_newest_record(tmp_path: Path) -> None:
    harness = segmented(tmp_path, retention_ms=10_000)
    assert harness.log.apply_retention(NOW_MS + 11_000) == 0
    assert harness.log.apply_retention(NOW_MS + 11_001) == 2 * BATCH
    assert harness.log.log_start_offset == 2


def test_expiring_everything_rolls_to_an_empty_active_segment(tmp_path: Path) -> None:
    harness = segmented(tmp_path, retention_ms=10)
    harness.log.apply_retention(NOW_MS + 100_000)
    assert (harness.log.log_start_offset, harness.log.log_end_offset, harness.log.size_bytes) == (7, 7, 0)
    assert harness.log.segments.base_offsets == (7,)
    assert harness.append(batch()).first_offset == 7


def test_nothing_above_the_high_watermark_is_deleted(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=BATCH, retention_ms=1))
    for _ in range(4):
        harness.log.append(batch(timestamp=1), origin=Origin.CLIENT, leader_epoch=0, now_ms=NOW_MS)
    harness.log.advance_high_watermark(2)
    harness.log.apply_retention(NOW_MS)
    assert harness.log.log_start_offset == 2


def test_a_compacted_log_loses_only_segments_below_its_start(tmp_path: Path) -> None:
    harness = segmented(tmp_path, retention_ms=1, retention_bytes=0)
    harness.log.config = LogConfig(segment_bytes=2 * BATCH, retention_ms=1, cleanup_policy=frozenset({"compact"}))
    assert harness.log.apply_retention(NOW_MS + 10**9) == 0
    harness.log.delete_records_before(3)
    assert harness.log.apply_retention(NOW_MS) == 2 * BATCH
    assert (harness.log.log_start_offset, harness.log.segments.first.base_offset) == (3, 2)


def test_deleted_files_are_renamed_and_removed_after_their_delay(tmp_path: Path) -> None:
    harness = segmented(tmp_path, retention_bytes=4 * BATCH, file_delete_delay_ms=1000)
    harness.log.apply_retention(NOW_MS)
    gone = sorted(p.name for p in harness.directory.glob("*.deleted"))
    assert gone == [f"{0:020d}.{kind}.deleted" for kind in ("index", "log", "timeindex")]
    run_due_deletions(harness.log, NOW_MS + 999)
    assert len(list(harness.directory.glob("*.deleted"))) == 3
    run_due_deletions(harness.log, NOW_MS + 1000)
    assert list(harness.directory.glob("*.deleted")) == []


def test_a_clock_that_went_back_does_not_delay_deleted_files(tmp_path: Path) -> None:
    harness = segmented(tmp_path, retention_bytes=4 * BATCH, file_delete_delay_ms=1000)
    harness.log.apply_retention(NOW_MS)
    run_due_deletions(harness.log, NOW_MS - 10**9)
    assert list(harness.directory.glob("*.deleted")) == []


def test_delete_records_moves_the_start_and_reads_below_it_are_out_of_range(harness: LogHarness) -> None:
    harness.append(batch(count=5))
    assert harness.log.delete_records_before(2) == 2
    assert harness.log.delete_records_before(1) == 2
    with pytest.raises(Rejected):
        read(harness, 1)
    assert read(harness, 2) == [0]
    assert harness.log.delete_records_before(-1) == 5
    for offset in (6, -2):
        with pytest.raises(Rejected) as caught:
            harness.log.delete_records_before(offset)
        assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE


# --- truncating and epochs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", range(8))
def test_truncating_removes_the_batch_with_the_offset_and_all_after_it(tmp_path: Path, offset: int) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=2 * BATCH + 20, index_interval_bytes=0))
    for i in range(4):
        harness.append(batch(7, 0, 2 * i, count=2))
    harness.log.truncate_to(offset, NOW_MS)
    end = offset // 2 * 2
    assert (harness.log.log_end_offset, harness.log.high_watermark) == (end, end)
    assert [h.base_offset for h in harness.headers()] == list(range(0, end, 2))
    assert producers(harness.log).get(7, (0, -1, -1, -1, -1))[1] == end - 1
    assert harness.append(batch(7, 0, end, count=2)).first_offset == end
    harness.crash()
    assert harness.log.log_end_offset == end + 2


def test_truncating_at_an_offset_that_compaction_removed_ends_the_log_there(harness: LogHarness) -> None:
    harness.append(batch())
    harness.log.append((5).to_bytes(8) + batch()[8:], origin=Origin.REPLICATION, leader_epoch=0, now_ms=NOW_MS)
    harness.log.truncate_to(3, NOW_MS)
    assert (read(harness, 0), harness.log.log_end_offset, harness.log.size_bytes) == ([0], 3, BATCH)


@pytest.mark.parametrize("offset", [2, 3])
def test_truncating_at_or_past_the_end_removes_an_epoch_that_started_there(harness: LogHarness, offset: int) -> None:
    """KAFKA-10706, scenario 5: the leader of that epoch has appended nothing."""
    for _ in range(2):
        harness.append(batch())
    harness.log.become_leader(5)
    harness.log.truncate_to(offset, NOW_MS)
    assert harness.log.log_end_offset == 2
    assert (harness.log.epochs.latest, harness.log.end_offset_for_epoch(5)) == (0, (-1, -1))


def test_truncating_a_marker_reopens_its_transaction(tmp_path: Path) -> None:
    """Scenarios 13 and 14 (KAFKA-9807): the next leader may end the transaction otherwise. The producer snapshot past the cut is
    removed."""
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=2 * BATCH + 20))
    harness.append(batch(5, 0, 0, transactional=True))
    harness.append(marker(5, 0, committed=False), origin=Origin.COORDINATOR)
    for sequence in range(3):
        harness.append(batch(6, 0, sequence))
    assert (harness.log.last_stable_offset, harness.file(".snapshot", 4).exists()) == (5, True)
    harness.log.truncate_to(1, NOW_MS)
    assert [path.name for path in harness.directory.glob("*.snapshot") if int(path.stem) > 1] == []
    harness.append(batch())
    for crashed in (False, True):
        log = harness.crash() if crashed else harness.log
        found = log.read(0, 1000, isolation=Isolation.READ_COMMITTED)
        assert (log.last_stable_offset, found.records, found.aborted) == (0, b"", [])
    harness.append(marker(5, 0, committed=True), origin=Origin.COORDINATOR)
    assert harness.log.last_stable_offset == 3


def test_truncating_below_the_log_start_moves_the_start(harness: LogHarness) -> None:
    for _ in range(4):
        harness.append(batch())
    harness.log.delete_records_before(3)
    harness.log.truncate_to(1, NOW_MS)
    assert (harness.log.log_start_offset, harness.log.high_watermark, harness.log.log_end_offset) == (1, 1, 1)


def test_restarting_at_an_offset_makes_the_log_empty_there(harness: LogHarness) -> None:
    harness.append(batch(7, 0, 0))
    harness.log.restart_at(100, NOW_MS)
    assert (harness.log.log_start_offset, harness.log.high_watermark, harness.log.log_end_offset) == (100, 100, 100)
    assert list(harness.log.producers()) == []
    assert harness.append(batch(7, 0, 5)).first_offset == 100


def test_an_epoch_ends_where_the_next_starts(harness: LogHarness) -> None:
    for epoch in (1, 1, 4):
        harness.log.append(batch(), origin=Origin.CLIENT, leader_epoch=epoch, now_ms=NOW_MS)
    harness.log.become_leader(6)
    assert {e: harness.log.end_offset_for_epoch(e) for e in (-1, 0, 1, 3, 4, 6, 7)} == {
        -1: (-1, -1),
        0: (0, 0),
        1: (1, 2),
        3: (1, 2),
        4: (4, 3),
        6: (6, 3),
        7: (-1, -1),
    }

"""Restoring a producer's last five batches from the log; deleted or older batches stay unknown."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.storage import producer_replay
from ottla.broker.storage.log_cleaner import clean_log
from ottla.broker.storage.log_values import AppendInfo
from ottla.broker.storage.producer_state import Origin
from ottla.protocol.error_codes import ErrorCode
from tests.support.logs import NOW_MS, LogHarness, batch, marker, run_due_deletions, windows

PID = 4000
SEQUENCE_MAX = 2**31 - 1


@pytest.fixture
def harness(tmp_path: Path) -> LogHarness:
    return LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=1000, index_interval_bytes=200))


def five(harness: LogHarness, *, between: int = 0, first: int = 0, epoch: int = 0) -> list[AppendInfo]:
    """Append five batches of the producer, and `between` batches of other producers before each."""
    infos = []
    for sequence in range(first, first + 5):
        for other in range(between):
            harness.append(batch(PID + 1 + other, 0, -1), origin=Origin.COORDINATOR)
        infos.append(harness.append(batch(PID, epoch, sequence)))
    return infos


def again(harness: LogHarness, *sequences: int, epoch: int = 0) -> list[int | ErrorCode]:
    """Send each batch again; return the original offset of a duplicate, or the error."""
    answers: list[int | ErrorCode] = []
    for sequence in sequences:
        try:
            info = harness.append(batch(PID, epoch, sequence))
            assert info.duplicate, f"sequence {sequence} was written again"
            answers.append(info.first_offset)
        except Rejected as rejected:
            answers.append(rejected.code)
    return answers


LOST = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("between", [0, 1, 7, 40])
def test_the_window_is_found_among_other_batches_and_segments(harness: LogHarness, between: int) -> None:
    offsets = [info.first_offset for info in five(harness, between=between)]
    assert between < 7 or len(harness.log.segments) > 1
    harness.restart()
    assert again(harness, 0, 1, 2, 3, 4) == offsets


def test_at_most_five_batches_are_found(harness: LogHarness) -> None:
    five(harness)
    five(harness, first=5)
    harness.restart()
    assert again(harness, 4, 5) == [LOST, 5]
    assert windows(harness.log)[PID] == [(i, i) for i in range(5, 10)]


def test_a_search_without_an_index_reads_only_its_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = LogHarness(tmp_path / "sparse-0", LogConfig(index_interval_bytes=2**31 - 1))
    for _ in range(1000):
        harness.append(batch(), origin=Origin.COORDINATOR)
    offsets = [info.first_offset for info in five(harness)]
    harness.restart()
    monkeypatch.setattr(producer_replay, "BATCHES_SEARCHED", 10)
    tracemalloc.start()
    try:
        assert again(harness, 0) == offsets[:1]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_the_log_is_searched_only_once(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    recall = producer_replay.recall_window
    monkeypatch.setattr(producer_replay, "recall_window", lambda entry, log: (searched.append(entry.producer_id), recall(entry, log)))
    harness.append(batch(PID, 0, 7, transactional=True))
    harness.restart()
    harness.append(batch(PID, 0, 8, transactional=True))
    assert searched == []
    for _ in range(3):
        with pytest.raises(Rejected):
            harness.append(batch(PID, 0, 5, transactional=True))
    assert searched == [PID]


def test_batches_written_after_the_start_count_in_the_window(harness: LogHarness) -> None:
    five(harness)
    harness.restart()
    for sequence in (5, 6):
        harness.append(batch(PID, 0, sequence))
    assert again(harness, 1, 2, 6) == [LOST, 2, 6]


def test_the_window_ends_at_the_epochs_start(harness: LogHarness) -> None:
    five(harness)
    for sequence in (0, 1):
        harness.append(batch(PID, 1, sequence))
    harness.restart()
    assert again(harness, 0, 1, epoch=1) == [5, 6]
    assert windows(harness.log)[PID] == [(0, 0), (1, 1)]


def test_a_marker_of_the_next_epoch_empties_the_window(harness: LogHarness) -> None:
    five(harness)
    harness.append(marker(PID, 0, committed=True), origin=Origin.COORDINATOR)
    harness.restart()
    assert again(harness, 3, 4) == [3, 4]
    harness.append(marker(PID, 1, committed=True), origin=Origin.COORDINATOR)
    harness.restart()
    assert windows(harness.log)[PID] == []
    assert again(harness, 4) == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_the_window_continues_over_the_sequence_wrap(harness: LogHarness) -> None:
    for sequence in (SEQUENCE_MAX - 1, SEQUENCE_MAX, 0, 1):
        harness.append(batch(PID, 0, sequence))
    harness.restart()
    assert again(harness, SEQUENCE_MAX - 1, SEQUENCE_MAX, 0, 1) == [0, 1, 2, 3]


def test_an_expired_producers_batches_are_not_in_the_window(harness: LogHarness) -> None:
    five(harness)
    harness.log.expire_producers(NOW_MS + harness.expiration_ms)
    harness.append(batch(PID, 0, 9))
    harness.restart()
    assert again(harness, 4, 8) == [LOST, LOST]
    assert windows(harness.log)[PID] == [(9, 9)]


def test_a_coordinators_batches_have_no_sequences(harness: LogHarness) -> None:
    for _ in range(3):
        harness.append(batch(PID, 0, -1, count=2), origin=Origin.COORDINATOR)
    harness.restart()
    assert again(harness, 5) == [LOST]


def test_deleted_records_count_while_their_segment_exists(harness: LogHarness) -> None:
    offsets = [info.first_offset for info in five(harness)]
    harness.log.delete_records_before(5)
    harness.restart()
    assert again(harness, 0, 4) == [offsets[0], offsets[4]]


def test_batches_of_a_segment_deleted_by_retention_are_unknown(harness: LogHarness) -> None:
    five(harness)
    harness.log.roll(NOW_MS)
    harness.append(batch(PID, 0, 5))
    harness.log.delete_records_before(5)
    harness.log.apply_retention(NOW_MS)
    run_due_deletions(harness.log, NOW_MS + 10**9)
    harness.restart()
    assert again(harness, 4, 5) == [LOST, 5]


def test_a_batch_removed_by_compaction_ends_the_window(harness: LogHarness) -> None:
    five(harness)
    harness.log.roll(NOW_MS)
    harness.append(batch(PID, 0, 5))
    for caller in clean_log(harness.log, 0, NOW_MS):
        if caller is not None:
            caller.sync()
    harness.restart()
    assert again(harness, 3, 4, 5) == [LOST, 4, 5]


def test_a_truncation_reduces_the_window(harness: LogHarness) -> None:
    """Scenario 14: after the truncation only batches that are still in the log are duplicates."""
    five(harness, between=3)
    harness.log.roll(NOW_MS)
    cut = five(harness, first=5, between=3)
    harness.log.truncate_to(cut[2].first_offset, NOW_MS)
    assert windows(harness.log)[PID] == [(i, i) for i in range(2, 7)]
    assert harness.append(batch(PID, 0, 7)).duplicate is False


@pytest.mark.parametrize("position", [0, 8, 16], ids=["offset", "length", "magic"])
def test_damage_hides_only_the_batches_before_it(harness: LogHarness, position: int) -> None:
    five(harness)
    harness.restart()
    second = harness.log.segments.first.find(1)
    assert second is not None
    with harness.file(".log").open("r+b") as file:
        file.seek(second[0] + position)
        file.write(b"\x7f\xff\xff\xff")
    assert again(harness, 0, 1) == [LOST, LOST]
    assert harness.append(batch(PID, 0, 5)).first_offset == 5


def test_a_wrong_index_loses_only_the_window(harness: LogHarness) -> None:
    five(harness)
    harness.restart()
    index = harness.log.segments.first.offset_index
    index.clear()
    index.append(1, harness.log.segments.first.size - 80)
    assert again(harness, 0) == [LOST]
    assert harness.append(batch(PID, 0, 5)).first_offset == 5


def test_the_search_is_limited_in_batches(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_replay, "BATCHES_SEARCHED", 3)
    five(harness, between=1)
    harness.restart()
    assert again(harness, 2, 3) == [LOST, 7]

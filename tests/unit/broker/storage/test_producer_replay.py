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
from tests.support.logs import NOW_MS, LogBox, batch, marker, run_due_deletions, windows

PID = 4000
SEQUENCE_MAX = 2**31 - 1


@pytest.fixture
def box(tmp_path: Path) -> LogBox:
    return LogBox(tmp_path / "topic-0", LogConfig(segment_bytes=1000, index_interval_bytes=200))


def five(box: LogBox, *, between: int = 0, first: int = 0, epoch: int = 0) -> list[AppendInfo]:
    """Append five batches of the producer, and `between` batches of other producers before each."""
    infos = []
    for sequence in range(first, first + 5):
        for other in range(between):
            box.append(batch(PID + 1 + other, 0, -1), origin=Origin.COORDINATOR)
        infos.append(box.append(batch(PID, epoch, sequence)))
    return infos


def again(box: LogBox, *sequences: int, epoch: int = 0) -> list[int | ErrorCode]:
    """Send each batch again; return the original offset of a duplicate, or the error."""
    answers: list[int | ErrorCode] = []
    for sequence in sequences:
        try:
            info = box.append(batch(PID, epoch, sequence))
            assert info.duplicate, f"sequence {sequence} was written again"
            answers.append(info.first_offset)
        except Rejected as rejected:
            answers.append(rejected.code)
    return answers


LOST = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("between", [0, 1, 7, 40])
def test_the_window_is_found_among_other_batches_and_segments(box: LogBox, between: int) -> None:
    offsets = [info.first_offset for info in five(box, between=between)]
    assert between < 7 or len(box.log.segments) > 1
    box.restart()
    assert again(box, 0, 1, 2, 3, 4) == offsets


def test_at_most_five_batches_are_found(box: LogBox) -> None:
    five(box)
    five(box, first=5)
    box.restart()
    assert again(box, 4, 5) == [LOST, 5]
    assert windows(box.log)[PID] == [(i, i) for i in range(5, 10)]


def test_a_search_without_an_index_reads_only_its_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = LogBox(tmp_path / "sparse-0", LogConfig(index_interval_bytes=2**31 - 1))
    for _ in range(1000):
        box.append(batch(), origin=Origin.COORDINATOR)
    offsets = [info.first_offset for info in five(box)]
    box.restart()
    monkeypatch.setattr(producer_replay, "BATCHES_SEARCHED", 10)
    tracemalloc.start()
    try:
        assert again(box, 0) == offsets[:1]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_the_log_is_searched_only_once(box: LogBox, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    recall = producer_replay.recall_window
    monkeypatch.setattr(producer_replay, "recall_window", lambda entry, log: (searched.append(entry.producer_id), recall(entry, log)))
    box.append(batch(PID, 0, 7, transactional=True))
    box.restart()
    box.append(batch(PID, 0, 8, transactional=True))
    assert searched == []
    for _ in range(3):
        with pytest.raises(Rejected):
            box.append(batch(PID, 0, 5, transactional=True))
    assert searched == [PID]


def test_batches_written_after_the_start_count_in_the_window(box: LogBox) -> None:
    five(box)
    box.restart()
    for sequence in (5, 6):
        box.append(batch(PID, 0, sequence))
    assert again(box, 1, 2, 6) == [LOST, 2, 6]


def test_the_window_ends_at_the_epochs_start(box: LogBox) -> None:
    five(box)
    for sequence in (0, 1):
        box.append(batch(PID, 1, sequence))
    box.restart()
    assert again(box, 0, 1, epoch=1) == [5, 6]
    assert windows(box.log)[PID] == [(0, 0), (1, 1)]


def test_a_marker_of_the_next_epoch_empties_the_window(box: LogBox) -> None:
    five(box)
    box.append(marker(PID, 0, committed=True), origin=Origin.COORDINATOR)
    box.restart()
    assert again(box, 3, 4) == [3, 4]
    box.append(marker(PID, 1, committed=True), origin=Origin.COORDINATOR)
    box.restart()
    assert windows(box.log)[PID] == []
    assert again(box, 4) == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_the_window_continues_over_the_sequence_wrap(box: LogBox) -> None:
    for sequence in (SEQUENCE_MAX - 1, SEQUENCE_MAX, 0, 1):
        box.append(batch(PID, 0, sequence))
    box.restart()
    assert again(box, SEQUENCE_MAX - 1, SEQUENCE_MAX, 0, 1) == [0, 1, 2, 3]


def test_an_expired_producers_batches_are_not_in_the_window(box: LogBox) -> None:
    five(box)
    box.log.expire_producers(NOW_MS + box.expiration_ms)
    box.append(batch(PID, 0, 9))
    box.restart()
    assert again(box, 4, 8) == [LOST, LOST]
    assert windows(box.log)[PID] == [(9, 9)]


def test_a_coordinators_batches_have_no_sequences(box: LogBox) -> None:
    for _ in range(3):
        box.append(batch(PID, 0, -1, count=2), origin=Origin.COORDINATOR)
    box.restart()
    assert again(box, 5) == [LOST]


def test_deleted_records_count_while_their_segment_exists(box: LogBox) -> None:
    offsets = [info.first_offset for info in five(box)]
    box.log.delete_records_before(5)
    box.restart()
    assert again(box, 0, 4) == [offsets[0], offsets[4]]


def test_batches_of_a_segment_deleted_by_retention_are_unknown(box: LogBox) -> None:
    five(box)
    box.log.roll(NOW_MS)
    box.append(batch(PID, 0, 5))
    box.log.delete_records_before(5)
    box.log.apply_retention(NOW_MS)
    run_due_deletions(box.log, NOW_MS + 10**9)
    box.restart()
    assert again(box, 4, 5) == [LOST, 5]


def test_a_batch_removed_by_compaction_ends_the_window(box: LogBox) -> None:
    five(box)
    box.log.roll(NOW_MS)
    box.append(batch(PID, 0, 5))
    for ticket in clean_log(box.log, 0, NOW_MS):
        if ticket is not None:
            ticket.sync()
    box.restart()
    assert again(box, 3, 4, 5) == [LOST, 4, 5]


def test_a_truncation_reduces_the_window(box: LogBox) -> None:
    """Scenario 14: after the truncation only batches that are still in the log are duplicates."""
    five(box, between=3)
    box.log.roll(NOW_MS)
    cut = five(box, first=5, between=3)
    box.log.truncate_to(cut[2].first_offset, NOW_MS)
    assert windows(box.log)[PID] == [(i, i) for i in range(2, 7)]
    assert box.append(batch(PID, 0, 7)).duplicate is False


@pytest.mark.parametrize("position", [0, 8, 16], ids=["offset", "length", "magic"])
def test_damage_hides_only_the_batches_before_it(box: LogBox, position: int) -> None:
    five(box)
    box.restart()
    second = box.log.segments.first.find(1)
    assert second is not None
    with box.file(".log").open("r+b") as file:
        file.seek(second[0] + position)
        file.write(b"\x7f\xff\xff\xff")
    assert again(box, 0, 1) == [LOST, LOST]
    assert box.append(batch(PID, 0, 5)).first_offset == 5


def test_a_wrong_index_loses_only_the_window(box: LogBox) -> None:
    five(box)
    box.restart()
    index = box.log.segments.first.offset_index
    index.clear()
    index.append(1, box.log.segments.first.size - 80)
    assert again(box, 0) == [LOST]
    assert box.append(batch(PID, 0, 5)).first_offset == 5


def test_the_search_is_limited_in_batches(box: LogBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_replay, "BATCHES_SEARCHED", 3)
    five(box, between=1)
    box.restart()
    assert again(box, 2, 3) == [LOST, 7]

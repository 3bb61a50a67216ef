"""Each rule of idempotent produce (Kafka's ProducerStateManager): without a restart, after a SIGKILL, and after a clean restart.

A test prepares the log, then leaves it or restarts it, then checks the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.log_values import AppendInfo, Isolation
from ottla.broker.storage.producer_state import Origin
from ottla.protocol.error_codes import ErrorCode
from tests.support.logs import NOW_MS, LogBox, batch, marker, producers, windows

PID = 4000
SEQUENCE_MAX = 2**31 - 1

Between = Callable[[LogBox], object]


@pytest.fixture
def box(tmp_path: Path) -> LogBox:
    return LogBox(tmp_path / "topic-0")


def nothing(box: LogBox) -> None:
    """Do nothing: the log keeps running."""


def crash(box: LogBox) -> None:
    box.crash()


def restart(box: LogBox) -> None:
    box.restart()


every_way = pytest.mark.parametrize("between", [nothing, crash, restart])


def refused(box: LogBox, data: bytes, *, origin: Origin = Origin.CLIENT, version: int = 0) -> ErrorCode:
    """Append a batch that must fail; return the error, after checking that neither the log nor the producer state has changed."""
    before = (box.log.log_end_offset, box.log.size_bytes, producers(box.log), windows(box.log))
    with pytest.raises(Rejected) as caught:
        box.append(data, origin=origin, version=version)
    assert (box.log.log_end_offset, box.log.size_bytes, producers(box.log), windows(box.log)) == before
    return caught.value.code


def is_duplicate_of(box: LogBox, data: bytes, original: AppendInfo) -> bool:
    before = (box.log.log_end_offset, box.log.size_bytes, windows(box.log))
    info = box.append(data)
    same = (info.first_offset, info.last_offset) == (original.first_offset, original.last_offset)
    return info.duplicate and same and (box.log.log_end_offset, box.log.size_bytes, windows(box.log)) == before


# --- duplicates (2.2, item 1) ----------------------------------------------------------------------------------------------------


@every_way
def test_an_exact_retry_is_answered_with_the_original_offsets_and_writes_nothing(box: LogBox, between: Between) -> None:
    box.append(batch(count=3))
    original = box.append(batch(PID, 0, 0, count=4, timestamp=NOW_MS - 50))
    between(box)
    assert is_duplicate_of(box, batch(PID, 0, 0, count=4), original)
    assert (original.first_offset, original.last_offset) == (3, 6)


@every_way
def test_a_retry_is_answered_with_the_timestamp_of_the_original(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0, timestamp=NOW_MS - 777))
    between(box)
    assert box.append(batch(PID, 0, 0)).log_append_time_ms == NOW_MS - 777


@every_way
def test_each_of_the_last_five_batches_is_recognized_in_any_order(box: LogBox, between: Between) -> None:
    originals = [box.append(batch(PID, 0, i * 2, count=2)) for i in range(5)]
    between(box)
    for i in (3, 0, 4, 1, 2, 0):
        assert is_duplicate_of(box, batch(PID, 0, i * 2, count=2), originals[i])


@every_way
def test_the_sixth_newest_batch_is_forgotten_and_its_retry_is_out_of_order(box: LogBox, between: Between) -> None:
    for i in range(6):
        box.append(batch(PID, 0, i))
    between(box)
    assert refused(box, batch(PID, 0, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@every_way
@pytest.mark.parametrize(
    ("sequence", "count"),
    [(0, 4), (0, 2), (1, 2), (1, 1), (0, 1), (2, 1), (2, 2), (1, 3)],
    ids=str,
)
def test_a_superset_subset_or_overlap_is_no_duplicate_but_out_of_order(box: LogBox, between: Between, sequence: int, count: int) -> None:
    box.append(batch(PID, 0, 0, count=3))
    between(box)
    assert refused(box, batch(PID, 0, sequence, count=count)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@every_way
def test_the_same_sequences_of_an_older_epoch_are_no_duplicate_but_fenced(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 1, 0))
    between(box)
    assert refused(box, batch(PID, 0, 0)) is ErrorCode.INVALID_PRODUCER_EPOCH


@every_way
def test_the_same_sequences_of_another_producer_are_no_duplicate(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0))
    between(box)
    assert not box.append(batch(PID + 1, 0, 0)).duplicate
    assert box.log.log_end_offset == 2


def test_a_coordinator_is_never_answered_with_a_duplicate(box: LogBox) -> None:
    box.append(batch(PID, 0, 0), origin=Origin.COORDINATOR)
    assert not box.append(batch(PID, 0, 0), origin=Origin.COORDINATOR).duplicate


def test_a_retry_whose_original_was_in_an_older_segment_still_is_a_duplicate(box: LogBox) -> None:
    original = box.append(batch(PID, 0, 0))
    box.log.roll(NOW_MS)
    assert is_duplicate_of(box, batch(PID, 0, 0), original)


# --- sequences (2.2, item 4) -------------------------------------------------------------------------------------------------------


@every_way
def test_the_next_sequence_is_accepted(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0, count=3))
    between(box)
    assert box.append(batch(PID, 0, 3)).first_offset == 3


@every_way
def test_a_gap_is_refused_and_the_missing_batch_is_still_accepted_after_it(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0, count=3))
    between(box)
    assert refused(box, batch(PID, 0, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not box.append(batch(PID, 0, 3)).duplicate
    assert not box.append(batch(PID, 0, 4)).duplicate


@every_way
def test_sequences_go_on_at_0_after_2_to_the_31_minus_1(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, SEQUENCE_MAX))
    between(box)
    assert refused(box, batch(PID, 0, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not box.append(batch(PID, 0, 0)).duplicate


@every_way
def test_a_batch_across_the_wrap_is_recognized_and_followed(box: LogBox, between: Between) -> None:
    original = box.append(batch(PID, 0, SEQUENCE_MAX - 1, count=4))
    between(box)
    assert is_duplicate_of(box, batch(PID, 0, SEQUENCE_MAX - 1, count=4), original)
    assert windows(box.log)[PID][-1] == (SEQUENCE_MAX - 1, 1)
    assert not box.append(batch(PID, 0, 2)).duplicate


@every_way
def test_an_unknown_producer_may_begin_with_any_sequence(box: LogBox, between: Between) -> None:
    between(box)
    assert not box.append(batch(PID, 7, 1234)).duplicate
    between(box)
    assert refused(box, batch(PID, 7, 1236)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not box.append(batch(PID, 7, 1235)).duplicate


@every_way
def test_from_transaction_version_2_on_an_unknown_transactional_producer_begins_with_0(box: LogBox, between: Between) -> None:
    between(box)
    box.log.producer_state.start_verification(PID, 0, 3, adds=True, now_ms=NOW_MS)
    assert refused(box, batch(PID, 0, 3, transactional=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    box.log.producer_state.start_verification(PID, 0, 0, adds=True, now_ms=NOW_MS)
    assert not box.append(batch(PID, 0, 0, transactional=True)).duplicate
    between(box)
    assert not box.append(batch(PID, 0, 1, transactional=True)).duplicate


def test_a_coordinators_sequences_are_not_looked_at(box: LogBox) -> None:
    box.append(batch(PID, 0, 0), origin=Origin.COORDINATOR)
    assert box.append(batch(PID, 0, 40), origin=Origin.COORDINATOR).first_offset == 1


# --- epochs (2.2, item 3) ------------------------------------------------------------------------------------------------------------


@every_way
def test_a_new_epoch_must_begin_with_sequence_0(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0))
    between(box)
    assert refused(box, batch(PID, 1, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not box.append(batch(PID, 1, 0)).duplicate


@every_way
def test_a_new_epoch_fences_the_old_one_and_empties_its_window(box: LogBox, between: Between) -> None:
    for i in range(3):
        box.append(batch(PID, 0, i))
    box.append(batch(PID, 1, 0))
    between(box)
    assert windows(box.log)[PID] == [(0, 0)]
    assert refused(box, batch(PID, 0, 3)) is ErrorCode.INVALID_PRODUCER_EPOCH


@every_way
def test_an_older_epoch_is_refused_from_a_coordinator_too(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 5, 0))
    between(box)
    assert refused(box, batch(PID, 4, 1), origin=Origin.COORDINATOR) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_batches_without_a_producer_pass_no_producer_rule_and_leave_no_trace(box: LogBox) -> None:
    box.append(batch())
    box.append(batch())
    assert list(box.log.producers()) == []
    assert box.log.log_end_offset == 2


def test_a_replicas_batches_pass_without_checks_but_are_remembered(box: LogBox) -> None:
    leader = LogBox(box.directory.with_name("other-0"))
    for sequence in (5, 9):
        leader.append(batch(PID, 0, sequence), origin=Origin.COORDINATOR)
    info = box.append(leader.log.segments.active.pread(10_000, 0), origin=Origin.REPLICATION)
    assert (info.first_offset, info.last_offset) == (0, 1)
    assert windows(box.log) == {PID: [(5, 5), (9, 9)]}


# --- expiry ----------------------------------------------------------------------------------------------------------------------------


@every_way
def test_a_producer_expires_by_the_timestamp_of_its_last_batch_not_by_its_arrival(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0, timestamp=NOW_MS - 100))
    box.append(batch(PID + 1, 0, 0, timestamp=NOW_MS))
    between(box)
    assert box.log.expire_producers(NOW_MS - 101 + box.expiration_ms) == 0
    assert box.log.expire_producers(NOW_MS - 100 + box.expiration_ms) == 1
    assert set(producers(box.log)) == {PID + 1}


def test_an_expired_producer_may_go_on_with_any_sequence(box: LogBox) -> None:
    box.append(batch(PID, 0, 0))
    box.log.expire_producers(NOW_MS + box.expiration_ms)
    assert not box.append(batch(PID, 0, 9)).duplicate


@every_way
def test_a_producer_with_an_open_transaction_never_expires(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0, transactional=True))
    between(box)
    assert box.log.expire_producers(NOW_MS + 10 * box.expiration_ms) == 0


def test_retention_does_not_forget_producers(box: LogBox) -> None:
    original = box.append(batch(PID, 0, 0))
    box.log.roll(NOW_MS)
    box.append(batch())
    box.log.delete_records_before(1)
    box.log.apply_retention(NOW_MS)
    assert box.log.segments.first.base_offset == 1
    assert is_duplicate_of(box, batch(PID, 0, 0), original)


# --- snapshots and rebuilding (2.6, 2.7) -----------------------------------------------------------------------------------------------


def test_a_restart_between_the_batches_of_a_window_forgets_none_of_them(box: LogBox) -> None:
    originals = []
    for i in range(5):
        originals.append(box.append(batch(PID, 0, i, count=2 if i == 2 else 1) if i < 3 else batch(PID, 0, i + 1)))
        box.restart()
    sent = [batch(PID, 0, 0), batch(PID, 0, 1), batch(PID, 0, 2, count=2), batch(PID, 0, 4), batch(PID, 0, 5)]
    assert all(is_duplicate_of(box, data, original) for data, original in zip(sent, originals, strict=True))


def test_a_crash_without_a_snapshot_rebuilds_the_window_of_five_from_the_log(box: LogBox) -> None:
    for i in range(8):
        box.append(batch(PID, 0, i))
    before = windows(box.log)
    box.crash()
    assert windows(box.log) == before
    assert len(before[PID]) == 5


def test_a_roll_takes_a_snapshot_from_which_a_crash_recovers(box: LogBox) -> None:
    for i in range(4):
        box.append(batch(PID, 0, i))
    box.log.roll(NOW_MS)
    box.append(batch(PID, 0, 4))
    assert box.file(".snapshot", 4).exists()
    box.crash()
    assert box.log.producer_state.end_offset == 5
    assert windows(box.log)[PID] == [(i, i) for i in range(5)]


def test_a_lost_snapshot_after_a_clean_stop_is_made_up_for_by_the_log(box: LogBox) -> None:
    original = box.append(batch(PID, 0, 0))
    box.log.close()
    box.file(".snapshot", 1).unlink()
    box.open(clean=True)
    assert is_duplicate_of(box, batch(PID, 0, 0), original)


def test_truncation_takes_producers_back_to_an_earlier_sequence_and_epoch(box: LogBox) -> None:
    for epoch, sequence in ((0, 0), (0, 1), (1, 0)):
        box.append(batch(PID, epoch, sequence))
    box.log.truncate_to(1, NOW_MS)
    assert producers(box.log)[PID][:3] == (0, 0, 0)
    assert not box.append(batch(PID, 0, 1)).duplicate


# --- markers and transactions ------------------------------------------------------------------------------------------------------


@every_way
def test_a_marker_of_an_unknown_producer_makes_an_entry_without_batches(box: LogBox, between: Between) -> None:
    box.append(marker(PID, 3, committed=True, coordinator_epoch=9), origin=Origin.COORDINATOR)
    between(box)
    assert producers(box.log) == {PID: (3, -1, -1, 9, -1)}


@every_way
def test_after_only_a_marker_in_an_epoch_sequences_begin_at_0(box: LogBox, between: Between) -> None:
    box.append(marker(PID, 3, committed=True), origin=Origin.COORDINATOR)
    between(box)
    assert refused(box, batch(PID, 3, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not box.append(batch(PID, 3, 0)).duplicate


@every_way
def test_a_marker_of_the_same_epoch_keeps_the_window(box: LogBox, between: Between) -> None:
    original = box.append(batch(PID, 0, 0, transactional=True))
    box.append(marker(PID, 0, committed=True), origin=Origin.COORDINATOR)
    between(box)
    assert is_duplicate_of(box, batch(PID, 0, 0, transactional=True), original)


@every_way
def test_a_marker_of_a_new_epoch_empties_the_window(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0, transactional=True))
    box.append(marker(PID, 1, committed=False), origin=Origin.COORDINATOR)
    between(box)
    assert windows(box.log)[PID] == []
    assert refused(box, batch(PID, 0, 1, transactional=True)) is ErrorCode.INVALID_PRODUCER_EPOCH


@every_way
def test_a_marker_of_an_older_epoch_is_fenced(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 2, 0, transactional=True))
    between(box)
    assert refused(box, marker(PID, 1, committed=True), origin=Origin.COORDINATOR) is ErrorCode.INVALID_PRODUCER_EPOCH


@every_way
def test_a_marker_of_an_older_coordinator_epoch_is_fenced(box: LogBox, between: Between) -> None:
    box.append(marker(PID, 0, committed=True, coordinator_epoch=5), origin=Origin.COORDINATOR)
    between(box)
    code = refused(box, marker(PID, 0, committed=True, coordinator_epoch=4), origin=Origin.COORDINATOR)
    assert code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    box.append(marker(PID, 0, committed=True, coordinator_epoch=5), origin=Origin.COORDINATOR)


@every_way
def test_from_transaction_version_2_on_a_marker_needs_a_new_epoch_while_the_transaction_is_open(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0, transactional=True))
    between(box)
    assert refused(box, marker(PID, 0, committed=True), origin=Origin.COORDINATOR, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    box.append(marker(PID, 1, committed=True), origin=Origin.COORDINATOR, version=2)
    between(box)
    box.append(marker(PID, 1, committed=True), origin=Origin.COORDINATOR, version=2)


@every_way
def test_a_plain_batch_is_refused_while_its_producer_has_an_open_transaction(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0, transactional=True))
    between(box)
    assert refused(box, batch(PID, 0, 1)) is ErrorCode.INVALID_TXN_STATE
    box.append(marker(PID, 0, committed=True), origin=Origin.COORDINATOR)
    assert not box.append(batch(PID, 0, 1)).duplicate


@every_way
def test_a_transactional_batch_may_follow_plain_ones_of_its_producer(box: LogBox, between: Between) -> None:
    box.append(batch(PID, 0, 0))
    between(box)
    box.append(batch(PID, 0, 1, transactional=True))
    assert box.log.last_stable_offset == 1


@every_way
def test_a_transactional_batch_of_an_older_epoch_opens_no_transaction(box: LogBox, between: Between) -> None:
    box.append(marker(PID, 1, committed=True), origin=Origin.COORDINATOR)
    between(box)
    assert refused(box, batch(PID, 0, 0, transactional=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(box, batch(PID, 0, -1, transactional=True), origin=Origin.COORDINATOR) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert box.log.last_stable_offset == box.log.high_watermark


@every_way
def test_a_marker_that_ends_nothing_is_written_and_aborts_nothing(box: LogBox, between: Between) -> None:
    box.append(batch())
    box.append(marker(PID, 0, committed=False), origin=Origin.COORDINATOR)
    between(box)
    assert box.log.read(0, 1000, isolation=Isolation.READ_COMMITTED).aborted == []


@every_way
def test_an_open_transaction_holds_the_last_stable_offset_at_its_first_batch(box: LogBox, between: Between) -> None:
    box.append(batch())
    box.append(batch(PID, 0, 0, transactional=True))
    box.append(batch(PID, 0, 1, transactional=True))
    box.append(batch(PID + 1, 0, 0, transactional=True))
    between(box)
    assert box.log.last_stable_offset == 1
    box.append(marker(PID, 0, committed=True), origin=Origin.COORDINATOR)
    between(box)
    assert box.log.last_stable_offset == 3
    box.append(marker(PID + 1, 0, committed=True), origin=Origin.COORDINATOR)
    between(box)
    assert box.log.last_stable_offset == box.log.log_end_offset


def test_a_marker_frees_the_last_stable_offset_only_below_the_high_watermark(box: LogBox) -> None:
    box.append(batch(PID, 0, 0, transactional=True))
    box.log.append(marker(PID, 0, committed=True), origin=Origin.COORDINATOR, leader_epoch=0, now_ms=NOW_MS)
    assert (box.log.high_watermark, box.log.last_stable_offset) == (1, 0)
    box.log.advance_high_watermark(2)
    assert box.log.last_stable_offset == 2


def test_a_high_watermark_at_the_marker_does_not_have_the_marker_yet(box: LogBox) -> None:
    for data, origin in ((batch(PID, 0, 0, transactional=True), Origin.CLIENT), (marker(PID, 0, committed=True), Origin.COORDINATOR)):
        box.log.append(data, origin=origin, leader_epoch=0, now_ms=NOW_MS)
    box.log.advance_high_watermark(1)
    assert box.log.last_stable_offset == 0

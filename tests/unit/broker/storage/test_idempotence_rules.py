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
from tests.support.logs import NOW_MS, LogHarness, batch, marker, producers, windows

PID = 4000
SEQUENCE_MAX = 2**31 - 1

Between = Callable[[LogHarness], object]


@pytest.fixture
def harness(tmp_path: Path) -> LogHarness:
    return LogHarness(tmp_path / "topic-0")


def nothing(harness: LogHarness) -> None:
    """Do nothing: the log keeps running."""


def crash(harness: LogHarness) -> None:
    harness.crash()


def restart(harness: LogHarness) -> None:
    harness.restart()


every_way = pytest.mark.parametrize("between", [nothing, crash, restart])


def refused(harness: LogHarness, data: bytes, *, origin: Origin = Origin.CLIENT, version: int = 0) -> ErrorCode:
    """Append a batch that must fail; return the error, after checking that neither the log nor the producer state has changed."""
    before = (harness.log.log_end_offset, harness.log.size_bytes, producers(harness.log), windows(harness.log))
    with pytest.raises(Rejected) as caught:
        harness.append(data, origin=origin, version=version)
    assert (harness.log.log_end_offset, harness.log.size_bytes, producers(harness.log), windows(harness.log)) == before
    return caught.value.code


def is_duplicate_of(harness: LogHarness, data: bytes, original: AppendInfo) -> bool:
    before = (harness.log.log_end_offset, harness.log.size_bytes, windows(harness.log))
    info = harness.append(data)
    same = (info.first_offset, info.last_offset) == (original.first_offset, original.last_offset)
    return info.duplicate and same and (harness.log.log_end_offset, harness.log.size_bytes, windows(harness.log)) == before


# --- duplicates (2.2, item 1) ----------------------------------------------------------------------------------------------------


@every_way
def test_an_exact_retry_is_answered_with_the_original_offsets_and_writes_nothing(harness: LogHarness, between: Between) -> None:
    harness.append(batch(count=3))
    original = harness.append(batch(PID, 0, 0, count=4, timestamp=NOW_MS - 50))
    between(harness)
    assert is_duplicate_of(harness, batch(PID, 0, 0, count=4), original)
    assert (original.first_offset, original.last_offset) == (3, 6)


@every_way
def test_a_retry_is_answered_with_the_timestamp_of_the_original(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, 0, timestamp=NOW_MS - 777))
    between(harness)
    assert harness.append(batch(PID, 0, 0)).log_append_time_ms == NOW_MS - 777


@every_way
def test_each_of_the_last_five_batches_is_recognized_in_any_order(harness: LogHarness, between: Between) -> None:
    originals = [harness.append(batch(PID, 0, i * 2, count=2)) for i in range(5)]
    between(harness)
    for i in (3, 0, 4, 1, 2, 0):
        assert is_duplicate_of(harness, batch(PID, 0, i * 2, count=2), originals[i])


@every_way
def test_the_sixth_newest_batch_is_forgotten_and_its_retry_is_out_of_order(harness: LogHarness, between: Between) -> None:
    for i in range(6):
        harness.append(batch(PID, 0, i))
    between(harness)
    code = refused(harness, batch(PID, 0, 0))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@every_way
@pytest.mark.parametrize(
    ("sequence", "count"),
    [(0, 4), (0, 2), (1, 2), (1, 1), (0, 1), (2, 1), (2, 2), (1, 3)],
    ids=str,
)
def test_a_superset_subset_or_overlap_is_no_duplicate_but_out_of_order(
    harness: LogHarness, between: Between, sequence: int, count: int
) -> None:
    harness.append(batch(PID, 0, 0, count=3))
    between(harness)
    code = refused(harness, batch(PID, 0, sequence, count=count))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@every_way
def test_the_same_sequences_of_an_older_epoch_are_no_duplicate_but_fenced(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 1, 0))
    between(harness)
    code = refused(harness, batch(PID, 0, 0))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


@every_way
def test_the_same_sequences_of_another_producer_are_no_duplicate(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, 0))
    between(harness)
    assert not harness.append(batch(PID + 1, 0, 0)).duplicate
    assert harness.log.log_end_offset == 2


def test_coordinators_repeated_batch_is_never_treated_as_a_duplicate(harness: LogHarness) -> None:
    harness.append(batch(PID, 0, 0), origin=Origin.COORDINATOR)
    assert not harness.append(batch(PID, 0, 0), origin=Origin.COORDINATOR).duplicate


def test_a_retry_whose_original_was_in_an_older_segment_still_is_a_duplicate(harness: LogHarness) -> None:
    original = harness.append(batch(PID, 0, 0))
    harness.log.roll(NOW_MS)
    assert is_duplicate_of(harness, batch(PID, 0, 0), original)


# --- sequences (2.2, item 4) -------------------------------------------------------------------------------------------------------


@every_way
def test_the_next_sequence_is_accepted(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, 0, count=3))
    between(harness)
    assert harness.append(batch(PID, 0, 3)).first_offset == 3


@every_way
def test_a_gap_is_refused_and_the_missing_batch_is_still_accepted_after_it(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, 0, count=3))
    between(harness)
    code = refused(harness, batch(PID, 0, 4))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not harness.append(batch(PID, 0, 3)).duplicate
    assert not harness.append(batch(PID, 0, 4)).duplicate


@every_way
def test_sequence_after_2_to_the_31_minus_1_is_0(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, SEQUENCE_MAX))
    between(harness)
    code = refused(harness, batch(PID, 0, 1))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not harness.append(batch(PID, 0, 0)).duplicate


@every_way
def test_a_batch_across_the_wrap_is_recognized_and_followed(harness: LogHarness, between: Between) -> None:
    original = harness.append(batch(PID, 0, SEQUENCE_MAX - 1, count=4))
    between(harness)
    assert is_duplicate_of(harness, batch(PID, 0, SEQUENCE_MAX - 1, count=4), original)
    assert windows(harness.log)[PID][-1] == (SEQUENCE_MAX - 1, 1)
    assert not harness.append(batch(PID, 0, 2)).duplicate


@every_way
def test_an_unknown_producer_may_begin_with_any_sequence(harness: LogHarness, between: Between) -> None:
    between(harness)
    assert not harness.append(batch(PID, 7, 1234)).duplicate
    between(harness)
    code = refused(harness, batch(PID, 7, 1236))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not harness.append(batch(PID, 7, 1235)).duplicate


@every_way
def test_from_transaction_version_2_on_an_unknown_transactional_producer_begins_with_0(harness: LogHarness, between: Between) -> None:
    between(harness)
    harness.log.producer_state.start_verification(PID, 0, 3, supports_epoch_bump=True, now_ms=NOW_MS)
    code = refused(harness, batch(PID, 0, 3, transactional=True))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    harness.log.producer_state.start_verification(PID, 0, 0, supports_epoch_bump=True, now_ms=NOW_MS)
    assert not harness.append(batch(PID, 0, 0, transactional=True)).duplicate
    between(harness)
    assert not harness.append(batch(PID, 0, 1, transactional=True)).duplicate


def test_coordinators_sequences_are_not_checked(harness: LogHarness) -> None:
    harness.append(batch(PID, 0, 0), origin=Origin.COORDINATOR)
    assert harness.append(batch(PID, 0, 40), origin=Origin.COORDINATOR).first_offset == 1


# --- epochs (2.2, item 3) ------------------------------------------------------------------------------------------------------------


@every_way
def test_a_new_epoch_must_begin_with_sequence_0(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, 0))
    between(harness)
    code = refused(harness, batch(PID, 1, 1))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not harness.append(batch(PID, 1, 0)).duplicate


@every_way
def test_new_producer_epoch_fences_the_old_one_and_empties_its_deduplication_window(harness: LogHarness, between: Between) -> None:
    for i in range(3):
        harness.append(batch(PID, 0, i))
    harness.append(batch(PID, 1, 0))
    between(harness)
    assert windows(harness.log)[PID] == [(0, 0)]
    code = refused(harness, batch(PID, 0, 3))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


@every_way
def test_an_older_epoch_is_refused_from_a_coordinator_too(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 5, 0))
    between(harness)
    code = refused(harness, batch(PID, 4, 1), origin=Origin.COORDINATOR)
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_batches_without_a_producer_id_skip_producer_checks_and_leave_no_producer_state(harness: LogHarness) -> None:
    harness.append(batch())
    harness.append(batch())
    assert list(harness.log.producers()) == []
    assert harness.log.log_end_offset == 2


def test_replicated_batches_are_not_checked_but_update_the_producer_state(harness: LogHarness) -> None:
    leader = LogHarness(harness.directory.with_name("other-0"))
    for sequence in (5, 9):
        leader.append(batch(PID, 0, sequence), origin=Origin.COORDINATOR)
    info = harness.append(leader.log.segments.active.pread(10_000, 0), origin=Origin.REPLICATION)
    assert (info.first_offset, info.last_offset) == (0, 1)
    assert windows(harness.log) == {PID: [(5, 5), (9, 9)]}


# --- expiry ----------------------------------------------------------------------------------------------------------------------------


@every_way
def test_a_producer_expires_by_the_timestamp_of_its_last_batch_not_by_its_arrival(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, 0, timestamp=NOW_MS - 100))
    harness.append(batch(PID + 1, 0, 0, timestamp=NOW_MS))
    between(harness)
    assert harness.log.expire_producers(NOW_MS - 101 + harness.expiration_ms) == 0
    assert harness.log.expire_producers(NOW_MS - 100 + harness.expiration_ms) == 1
    assert set(producers(harness.log)) == {PID + 1}


def test_expired_producer_may_continue_with_any_sequence(harness: LogHarness) -> None:
    harness.append(batch(PID, 0, 0))
    harness.log.expire_producers(NOW_MS + harness.expiration_ms)
    assert not harness.append(batch(PID, 0, 9)).duplicate


@every_way
def test_a_producer_with_an_open_transaction_never_expires(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, 0, transactional=True))
    between(harness)
    assert harness.log.expire_producers(NOW_MS + 10 * harness.expiration_ms) == 0


def test_retention_does_not_forget_producers(harness: LogHarness) -> None:
    original = harness.append(batch(PID, 0, 0))
    harness.log.roll(NOW_MS)
    harness.append(batch())
    harness.log.delete_records_before(1)
    harness.log.apply_retention(NOW_MS)
    assert harness.log.segments.first.base_offset == 1
    assert is_duplicate_of(harness, batch(PID, 0, 0), original)


# --- snapshots and rebuilding (2.6, 2.7) -----------------------------------------------------------------------------------------------


def test_a_restart_between_the_batches_of_a_window_forgets_none_of_them(harness: LogHarness) -> None:
    originals = []
    for i in range(5):
        originals.append(harness.append(batch(PID, 0, i, count=2 if i == 2 else 1) if i < 3 else batch(PID, 0, i + 1)))
        harness.restart()
    sent = [batch(PID, 0, 0), batch(PID, 0, 1), batch(PID, 0, 2, count=2), batch(PID, 0, 4), batch(PID, 0, 5)]
    assert all(is_duplicate_of(harness, data, original) for data, original in zip(sent, originals, strict=True))


def test_a_crash_without_a_snapshot_rebuilds_the_window_of_five_from_the_log(harness: LogHarness) -> None:
    for i in range(8):
        harness.append(batch(PID, 0, i))
    before = windows(harness.log)
    harness.crash()
    assert windows(harness.log) == before
    assert len(before[PID]) == 5


def test_a_roll_takes_a_snapshot_from_which_a_crash_recovers(harness: LogHarness) -> None:
    for i in range(4):
        harness.append(batch(PID, 0, i))
    harness.log.roll(NOW_MS)
    harness.append(batch(PID, 0, 4))
    assert harness.file(".snapshot", 4).exists()
    harness.crash()
    assert harness.log.producer_state.end_offset == 5
    assert windows(harness.log)[PID] == [(i, i) for i in range(5)]


def test_a_lost_snapshot_after_a_clean_stop_is_made_up_for_by_the_log(harness: LogHarness) -> None:
    original = harness.append(batch(PID, 0, 0))
    harness.log.close()
    harness.file(".snapshot", 1).unlink()
    harness.open(clean=True)
    assert is_duplicate_of(harness, batch(PID, 0, 0), original)


def test_truncation_takes_producers_back_to_an_earlier_sequence_and_epoch(harness: LogHarness) -> None:
    for epoch, sequence in ((0, 0), (0, 1), (1, 0)):
        harness.append(batch(PID, epoch, sequence))
    harness.log.truncate_to(1, NOW_MS)
    assert producers(harness.log)[PID][:3] == (0, 0, 0)
    assert not harness.append(batch(PID, 0, 1)).duplicate


# --- markers and transactions ------------------------------------------------------------------------------------------------------


@every_way
def test_a_marker_of_an_unknown_producer_makes_an_entry_without_batches(harness: LogHarness, between: Between) -> None:
    harness.append(marker(PID, 3, committed=True, coordinator_epoch=9), origin=Origin.COORDINATOR)
    between(harness)
    assert producers(harness.log) == {PID: (3, -1, -1, 9, -1)}


@every_way
def test_after_only_a_marker_in_an_epoch_sequences_begin_at_0(harness: LogHarness, between: Between) -> None:
    harness.append(marker(PID, 3, committed=True), origin=Origin.COORDINATOR)
    between(harness)
    code = refused(harness, batch(PID, 3, 1))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not harness.append(batch(PID, 3, 0)).duplicate


@every_way
def test_a_marker_of_the_same_epoch_keeps_the_window(harness: LogHarness, between: Between) -> None:
    original = harness.append(batch(PID, 0, 0, transactional=True))
    harness.append(marker(PID, 0, committed=True), origin=Origin.COORDINATOR)
    between(harness)
    assert is_duplicate_of(harness, batch(PID, 0, 0, transactional=True), original)


@every_way
def test_a_marker_of_a_new_epoch_empties_the_window(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, 0, transactional=True))
    harness.append(marker(PID, 1, committed=False), origin=Origin.COORDINATOR)
    between(harness)
    assert windows(harness.log)[PID] == []
    code = refused(harness, batch(PID, 0, 1, transactional=True))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


@every_way
def test_a_marker_of_an_older_epoch_is_fenced(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 2, 0, transactional=True))
    between(harness)
    code = refused(harness, marker(PID, 1, committed=True), origin=Origin.COORDINATOR)
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


@every_way
def test_a_marker_of_an_older_coordinator_epoch_is_fenced(harness: LogHarness, between: Between) -> None:
    harness.append(marker(PID, 0, committed=True, coordinator_epoch=5), origin=Origin.COORDINATOR)
    between(harness)
    code = refused(harness, marker(PID, 0, committed=True, coordinator_epoch=4), origin=Origin.COORDINATOR)
    assert code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    harness.append(marker(PID, 0, committed=True, coordinator_epoch=5), origin=Origin.COORDINATOR)


@every_way
def test_from_transaction_version_2_on_a_marker_needs_a_new_epoch_while_the_transaction_is_open(
    harness: LogHarness, between: Between
) -> None:
    harness.append(batch(PID, 0, 0, transactional=True))
    between(harness)
    code = refused(harness, marker(PID, 0, committed=True), origin=Origin.COORDINATOR, version=2)
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH
    harness.append(marker(PID, 1, committed=True), origin=Origin.COORDINATOR, version=2)
    between(harness)
    harness.append(marker(PID, 1, committed=True), origin=Origin.COORDINATOR, version=2)


@every_way
def test_a_plain_batch_is_refused_while_its_producer_has_an_open_transaction(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, 0, transactional=True))
    between(harness)
    code = refused(harness, batch(PID, 0, 1))
    assert code is ErrorCode.INVALID_TXN_STATE
    harness.append(marker(PID, 0, committed=True), origin=Origin.COORDINATOR)
    assert not harness.append(batch(PID, 0, 1)).duplicate


@every_way
def test_a_transactional_batch_may_follow_plain_ones_of_its_producer(harness: LogHarness, between: Between) -> None:
    harness.append(batch(PID, 0, 0))
    between(harness)
    harness.append(batch(PID, 0, 1, transactional=True))
    assert harness.log.last_stable_offset == 1


@every_way
def test_a_transactional_batch_of_an_older_epoch_opens_no_transaction(harness: LogHarness, between: Between) -> None:
    harness.append(marker(PID, 1, committed=True), origin=Origin.COORDINATOR)
    between(harness)
    code = refused(harness, batch(PID, 0, 0, transactional=True))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH
    code = refused(harness, batch(PID, 0, -1, transactional=True), origin=Origin.COORDINATOR)
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert harness.log.last_stable_offset == harness.log.high_watermark


@every_way
def test_a_marker_that_ends_nothing_is_written_and_aborts_nothing(harness: LogHarness, between: Between) -> None:
    harness.append(batch())
    harness.append(marker(PID, 0, committed=False), origin=Origin.COORDINATOR)
    between(harness)
    assert harness.log.read(0, 1000, isolation=Isolation.READ_COMMITTED).aborted == []


@every_way
def test_an_open_transaction_holds_the_last_stable_offset_at_its_first_batch(harness: LogHarness, between: Between) -> None:
    harness.append(batch())
    harness.append(batch(PID, 0, 0, transactional=True))
    harness.append(batch(PID, 0, 1, transactional=True))
    harness.append(batch(PID + 1, 0, 0, transactional=True))
    between(harness)
    assert harness.log.last_stable_offset == 1
    harness.append(marker(PID, 0, committed=True), origin=Origin.COORDINATOR)
    between(harness)
    assert harness.log.last_stable_offset == 3
    harness.append(marker(PID + 1, 0, committed=True), origin=Origin.COORDINATOR)
    between(harness)
    assert harness.log.last_stable_offset == harness.log.log_end_offset


def test_a_marker_frees_the_last_stable_offset_only_below_the_high_watermark(harness: LogHarness) -> None:
    harness.append(batch(PID, 0, 0, transactional=True))
    harness.log.append(marker(PID, 0, committed=True), origin=Origin.COORDINATOR, leader_epoch=0, now_ms=NOW_MS)
    assert (harness.log.high_watermark, harness.log.last_stable_offset) == (1, 0)
    harness.log.advance_high_watermark(2)
    assert harness.log.last_stable_offset == 2


def test_high_watermark_at_the_markers_offset_does_not_include_the_marker(harness: LogHarness) -> None:
    for data, origin in ((batch(PID, 0, 0, transactional=True), Origin.CLIENT), (marker(PID, 0, committed=True), Origin.COORDINATOR)):
        harness.log.append(data, origin=origin, leader_epoch=0, now_ms=NOW_MS)
    harness.log.advance_high_watermark(1)
    assert harness.log.last_stable_offset == 0

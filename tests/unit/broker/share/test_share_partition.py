from __future__ import annotations

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.share.acknowledgement import AcknowledgementBatch, AcknowledgeType, acknowledge
from ottla.broker.share.acquisition import Acquisition, Fetched, acquire
from ottla.broker.share.dead_letters import DELIVERED_TOO_OFTEN, REJECTED, DeadLetters
from ottla.broker.share.persister import ReadState, StateBatch
from ottla.broker.share.settings import ShareSettings
from ottla.broker.share.share_partition import SharePartition

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
LOCK_MS = 30_000


def made(start: int = 0, batches: list[StateBatch] | None = None, **settings: int) -> SharePartition:
    known = ShareSettings(**settings)  # type: ignore[arg-type] # the tests change only numbers
    partition = SharePartition(lambda: known, leader_epoch=3)
    partition.load(ReadState(1, start, batches or []), start)
    return partition


def fetch(
    partition: SharePartition, *batches: tuple[int, int], member: str = "m", now_ms: int = 0, max_records: int = 500
) -> list[tuple[int, ...]]:
    request = Acquisition(member, max_records, 500, False, now_ms)
    read = [Fetched(*batch) for batch in batches]
    return [tuple(part) for part in acquire(partition, request, partition.next_fetch_offset(), read)]


def accept(partition: SharePartition, first: int, last: int, *types: int) -> None:
    update = acknowledge(partition, "m", [AcknowledgementBatch(first, last, types or (1,))], 0)
    partition.commit(update)


def test_a_new_share_partition_fetches_from_its_start() -> None:
    partition = made(start=7)
    assert (partition.next_fetch_offset(), partition.in_flight_count) == (7, 0)


def test_start_offset_moves_past_the_acknowledged_prefix() -> None:
    partition = made()
    fetch(partition, (0, 9))
    accept(partition, 5, 9)
    assert (partition.start_offset, partition.delivery_complete_count) == (0, 5)
    accept(partition, 0, 2)
    assert (partition.start_offset, partition.delivery_complete_count) == (3, 5)
    accept(partition, 3, 4)
    assert (partition.start_offset, partition.end_offset, partition.delivery_complete_count) == (10, 10, 0)


def test_a_failed_write_leaves_the_start_offset_and_the_counts() -> None:
    partition = made()
    fetch(partition, (0, 9))
    update = acknowledge(partition, "m", [AcknowledgementBatch(0, 9, [1])], 0)
    assert partition.state_to_write(update.batches).delivery_complete_count == 10
    partition.roll_back(update, now_ms=0)
    assert (partition.start_offset, partition.delivery_complete_count) == (0, 0)
    assert partition.next_fetch_offset() == 10


def test_persisted_state_continues_where_it_was() -> None:
    partition = made(5, [StateBatch(5, 6, ACKNOWLEDGED, 1), StateBatch(7, 8, AVAILABLE, 2), StateBatch(9, 9, ARCHIVED, 5)])
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (7, 9, 7)
    assert fetch(partition, (0, 9)) == [(7, 8, 3)]


def test_offsets_between_persisted_batches_are_fetched_again() -> None:
    partition = made(0, [StateBatch(5, 9, ACKNOWLEDGED, 1)])
    assert partition.next_fetch_offset() == 0
    assert fetch(partition, (0, 9)) == [(0, 4, 1)]
    accept(partition, 0, 4)
    assert (partition.next_fetch_offset(), partition.start_offset) == (10, 10)


def test_a_gap_that_compaction_has_emptied_is_not_fetched_for_ever() -> None:
    partition = made(0, [StateBatch(5, 9, ACKNOWLEDGED, 1)])
    assert fetch(partition, (5, 9), (10, 12)) == [(10, 12, 1)]
    accept(partition, 10, 12)
    assert (partition.start_offset, partition.next_fetch_offset()) == (13, 13)


@pytest.mark.parametrize("batch", [StateBatch(3, 6, AVAILABLE, 1), StateBatch(8, 7, AVAILABLE, 1)])
def test_an_impossible_persisted_state_is_refused(batch: StateBatch) -> None:
    with pytest.raises(Rejected):
        made(5, [batch])


def test_an_expired_lock_makes_the_records_available_and_counts_the_delivery() -> None:
    partition = made()
    fetch(partition, (0, 9))
    assert partition.next_lock_deadline_ms == LOCK_MS
    assert partition.expire_locks(LOCK_MS - 1) == []
    assert partition.expire_locks(LOCK_MS) == [StateBatch(0, 9, AVAILABLE, 1)]
    assert fetch(partition, (0, 9), now_ms=LOCK_MS) == [(0, 9, 2)]


def test_an_expired_lock_at_the_delivery_limit_archives_the_records() -> None:
    partition = made(delivery_count_limit=2)
    fetch(partition, (0, 1))
    partition.expire_locks(LOCK_MS)
    fetch(partition, (0, 1), now_ms=LOCK_MS)
    assert [batch.delivery_state for batch in partition.expire_locks(2 * LOCK_MS)] == [ARCHIVED]
    partition.trim()
    assert partition.start_offset == 2


def test_a_renewed_lock_expires_later() -> None:
    partition = made()
    fetch(partition, (0, 9))
    acknowledge(partition, "m", [AcknowledgementBatch(0, 4, [4])], now_ms=20_000)
    assert partition.expire_locks(LOCK_MS) == [StateBatch(5, 9, AVAILABLE, 1)]
    assert partition.expire_locks(50_000) == [StateBatch(0, 4, AVAILABLE, 1)]


def test_outdated_lock_entries_do_not_pile_up() -> None:
    partition = made()
    fetch(partition, (0, 0))
    for now_ms in range(1_000):
        acknowledge(partition, "m", [AcknowledgementBatch(0, 0, [4])], now_ms)
    assert partition.watched_locks <= 65


def test_leaving_member_releases_its_acquired_records() -> None:
    partition = made()
    fetch(partition, (0, 4))
    fetch(partition, (5, 9), member="n")
    update = partition.release("m")
    assert update.batches == [StateBatch(0, 4, AVAILABLE, 1)]
    assert partition.next_fetch_offset() == 10
    partition.commit(update)
    assert partition.next_fetch_offset() == 0


def test_new_log_start_archives_available_records_below_it() -> None:
    partition = made()
    fetch(partition, (0, 9))
    partition.expire_locks(LOCK_MS)
    partition.advance_to_log_start(4)
    assert (partition.start_offset, partition.next_fetch_offset()) == (4, 4)
    assert fetch(partition, (0, 9)) == [(4, 9, 2)]


def test_a_log_start_behind_everything_starts_afresh() -> None:
    partition = made()
    fetch(partition, (0, 9))
    partition.advance_to_log_start(50)
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (50, 50, 50)


def test_at_the_limit_of_record_locks_only_released_records_can_be_acquired() -> None:
    partition = made(partition_max_record_locks=10)
    fetch(partition, (0, 9))
    assert not partition.can_acquire
    accept(partition, 3, 3, 2)
    assert partition.can_acquire
    assert fetch(partition, (0, 9), (10, 12)) == [(3, 3, 2)]


def test_records_that_are_given_up_are_archiving_until_their_dead_letters_are_written() -> None:
    settings = ShareSettings(dead_letter_topic="dlq.q", delivery_count_limit=2)
    partition = SharePartition(lambda: settings, leader_epoch=0)
    partition.load(ReadState(0, 0, [StateBatch(0, 1, 0, 1)]), 0)
    acquire(partition, Acquisition("m", 2, 2, False, 0), 0, [Fetched(0, 1)])
    acquire(partition, Acquisition("m", 2, 2, False, 0), 2, [Fetched(2, 3)])
    types = [AcknowledgeType.RELEASE, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.ACCEPT]
    update = acknowledge(partition, "m", [AcknowledgementBatch(0, 3, types)], 0)
    assert update.batches == [StateBatch(0, 1, 3, 2), StateBatch(2, 2, 3, 1), StateBatch(3, 3, 2, 1)]
    assert partition.dead_letters == []
    partition.commit(update)
    often, rejected = partition.dead_letters
    assert often == DeadLetters(0, 1, 2, DELIVERED_TOO_OFTEN)
    assert rejected == DeadLetters(2, 2, 1, REJECTED)
    assert (partition.start_offset, partition.delivery_complete_count) == (0, 1)
    assert [partition.archive_dead_letters(each) for each in (rejected, often)] == [StateBatch(2, 2, 4, 1), StateBatch(0, 1, 4, 2)]
    assert partition.trim()
    assert (partition.start_offset, partition.delivery_complete_count) == (4, 0)


def test_the_dead_letters_of_records_that_the_log_has_lost_end_without_a_trace() -> None:
    settings = ShareSettings(dead_letter_topic="dlq.q")
    partition = SharePartition(lambda: settings, leader_epoch=0)
    partition.load(ReadState(0, 0, [StateBatch(0, 1, 3, 1), StateBatch(2, 2, 0, 1)]), 0)
    partition.advance_to_log_start(2)
    partition.archive_dead_letters(partition.dead_letters[0])
    partition.trim()
    assert (partition.start_offset, partition.delivery_complete_count) == (2, 0)


@pytest.mark.parametrize(("count", "cause"), [(1, REJECTED), (5, DELIVERED_TOO_OFTEN)])
def test_a_new_leader_begins_the_dead_letters_of_archiving_records_again(count: int, cause: str) -> None:
    settings = ShareSettings(dead_letter_topic="dlq.q")
    partition = SharePartition(lambda: settings, leader_epoch=0)
    partition.load(ReadState(0, 0, [StateBatch(0, 1, 3, count)]), 0)
    assert partition.dead_letters == [DeadLetters(0, 1, count, cause)]
    assert acquire(partition, Acquisition("m", 2, 2, False, 0), 0, [Fetched(0, 1)]) == []

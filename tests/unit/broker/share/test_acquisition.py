from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.share.acquisition import Acquisition, Fetched, acquire, without_aborted
from ottla.broker.share.persister import ReadState
from ottla.broker.share.settings import ShareSettings
from ottla.broker.share.share_partition import AcquiredRecords, SharePartition

LOCK_MS = 30_000


class Partition:
    """A share partition, and a member whose locks all expire."""

    def __init__(self, limit: int = 5, locks: int = 2_000) -> None:
        settings = ShareSettings(delivery_count_limit=limit, partition_max_record_locks=locks)
        self.state = SharePartition(lambda: settings, leader_epoch=0)
        self.state.load(ReadState(0, 0), 0)
        self.now_ms = 0

    def acquire(
        self, *batches: tuple[int, int], records: int = 500, size: int = 500, record_limit: bool = False, aborted: Sequence[Fetched] = ()
    ) -> list[tuple[int, ...]]:
        request = Acquisition("m", records, size, record_limit, self.now_ms)
        read = [Fetched(*batch) for batch in batches]
        return [tuple(part) for part in acquire(self.state, request, self.state.next_fetch_offset(), read, aborted)]

    def expire(self) -> None:
        self.now_ms += LOCK_MS
        self.state.expire_locks(self.now_ms)


def test_whole_batches_are_acquired_even_above_max_records() -> None:
    partition = Partition()
    assert partition.acquire((0, 9), (10, 14), (15, 20), records=12) == [(0, 14, 1)]
    assert partition.state.next_fetch_offset() == 15


def test_record_limit_leaves_the_rest_of_the_batch_available() -> None:
    partition = Partition()
    assert partition.acquire((0, 9), (10, 14), records=12, record_limit=True) == [(0, 11, 1)]
    assert partition.acquire((10, 14), (15, 16), records=2, record_limit=True) == [(12, 13, 1)]
    assert partition.acquire((10, 14), (15, 16), records=9, record_limit=True) == [(14, 14, 1), (15, 16, 1)]


def test_acquired_records_are_split_at_the_batches_of_the_log() -> None:
    assert Partition().acquire((0, 3), (4, 5), (6, 7), (8, 20), size=5) == [(0, 5, 1), (6, 20, 1)]


def test_offsets_that_the_log_lacks_are_acquired_with_their_neighbours() -> None:
    assert Partition().acquire((0, 3), (8, 9)) == [(0, 9, 1)]


def test_available_records_that_compaction_has_removed_are_archived() -> None:
    partition = Partition()
    partition.acquire((0, 3), (4, 6))
    partition.expire()
    assert partition.acquire((5, 6), (7, 8)) == [(5, 6, 2), (7, 8, 1)]
    assert partition.state.start_offset == 5


def test_records_of_aborted_transactions_are_archived() -> None:
    partition = Partition()
    assert partition.acquire((0, 1), (2, 3), (4, 4), aborted=[Fetched(2, 3)]) == [(0, 1, 1), (4, 4, 1)]
    assert partition.state.delivery_complete_count == 2


def test_aborted_records_alone_do_not_fill_the_limit_of_record_locks() -> None:
    partition = Partition(locks=10)
    assert partition.acquire((0, 9), aborted=[Fetched(0, 9)]) == []
    assert partition.acquire((10, 12)) == [(10, 12, 1)]


def test_aborted_batches_are_cut_out_of_acquired_records() -> None:
    acquired = [AcquiredRecords(0, 9, 1), AcquiredRecords(10, 19, 2), AcquiredRecords(20, 29, 1)]
    aborted = [Fetched(0, 1), Fetched(5, 6), Fetched(8, 12), Fetched(20, 29)]
    assert without_aborted(acquired, aborted) == [AcquiredRecords(2, 4, 1), AcquiredRecords(7, 7, 1), AcquiredRecords(13, 19, 2)]


def test_suspicious_records_are_delivered_in_ever_smaller_numbers_and_at_last_alone() -> None:
    partition = Partition(limit=5)
    sizes = []
    for _ in range(5):
        acquired = partition.acquire((0, 15))
        sizes.append((acquired[0][1] - acquired[0][0] + 1, acquired[0][2]))
        partition.expire()
    assert sizes == [(16, 1), (16, 2), (16, 3), (8, 4), (1, 5)]
    partition.state.trim()
    assert partition.state.start_offset == 1


def test_a_batch_is_not_delivered_together_with_a_suspicious_one() -> None:
    partition = Partition(limit=4)
    partition.acquire((0, 1))
    partition.expire()
    partition.acquire((0, 1))
    partition.expire()
    partition.acquire((0, 1), (2, 3), records=2)
    partition.expire()
    assert partition.acquire((0, 1), (2, 3), (4, 5)) == [(0, 0, 4)]

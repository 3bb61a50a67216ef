"""Acquires fetched records for a member of a share group (Kafka's SharePartition.acquire, KIP-932, KIP-1206). No I/O.

Rules:
* Available records that were acquired before come first, then new ones. A member acquires whole batches of the log, and so more records
  than `max_records` if the last batch is larger. In the mode *record limit* (KIP-1206) it acquires at most `max_records`; the rest of the
  batch is available to other members.
* Offsets without a record (compacted, or control records) are acquired like others. The member finds that they are missing and acknowledges
  them as gaps.
* From the delivery count `ShareSettings.throttle_from` on, fewer records are acquired together with each delivery, and only one at the last
  delivery. So a record that crashes its member is archived without its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.broker.share.in_flight import NO_MEMBER, InFlightBatch, InFlightState, RecordState, Run
from ottla.broker.share.share_partition import AcquiredRecords, SharePartition


class Fetched(NamedTuple):
    """The first and last offset of a batch that was fetched from the log."""

    base_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Acquisition:
    """The parameters with which a member acquires records of one share partition. With `record_limit`, `max_records` is a strict limit
    (KIP-1206). Without it, whole batches are acquired, and `batch_size` is the minimum number of records in each group of batches that is
    tracked together."""

    member_id: str
    max_records: int
    batch_size: int
    record_limit: bool
    now_ms: int


def acquire(
    partition: SharePartition,
    request: Acquisition,
    fetch_offset: int,
    batches: Sequence[Fetched],
    aborted: Sequence[Fetched] = (),
) -> list[AcquiredRecords]:
    """Acquire records of the fetched `batches` for a member, and archive the records in `aborted`, which belong to aborted transactions.
    Return the acquired records in ascending order, without the aborted ones.

    `fetch_offset` is the offset from which the batches were read.
    """
    if request.max_records <= 0 or not batches or batches[-1].last_offset < partition.start_offset:
        return []
    return _Acquiring(partition, request, batches).run(fetch_offset, aborted)


def without_aborted(acquired: Sequence[AcquiredRecords], aborted: Sequence[Fetched]) -> list[AcquiredRecords]:
    """Return the acquired records except those in the batches `aborted`, which belong to aborted transactions. Both are in ascending
    order."""
    kept: list[AcquiredRecords] = []
    at = 0
    for first, last, delivery_count in acquired:
        while at < len(aborted) and aborted[at].last_offset < first:
            at += 1
        begin, each = first, at
        while each < len(aborted) and aborted[each].base_offset <= last:
            if begin < aborted[each].base_offset:
                kept.append(AcquiredRecords(begin, aborted[each].base_offset - 1, delivery_count))
            begin = aborted[each].last_offset + 1
            each += 1
        if begin <= last:
            kept.append(AcquiredRecords(begin, last, delivery_count))
    return kept


class _Acquiring:
    """Performs one acquisition. It has the share partition, the request, the fetched batches, and the records acquired so far."""

    def __init__(self, partition: SharePartition, request: Acquisition, batches: Sequence[Fetched]) -> None:
        self.partition = partition
        self.request = request
        self.batches = batches
        self.acquired: list[AcquiredRecords] = []
        self.count = 0
        self.max_records = 0

    @property
    def left(self) -> int:
        return self.max_records - self.count

    def run(self, fetch_offset: int, aborted: Sequence[Fetched]) -> list[AcquiredRecords]:
        partition, base = self.partition, self.batches[0].base_offset
        last = self._limit(fetch_offset)
        if self.max_records <= 0:
            return []
        self._archive_missing(fetch_offset, base)
        if partition.open_gap is not None and partition.open_gap < base:
            partition.fetched_to(base)  # Kafka does not do this, and fetches the same offset forever if compaction has emptied the gap
        floor = partition.in_flight.floor(base)
        base = floor.first_offset if floor is not None and floor.last_offset >= base else max(base, partition.start_offset)
        if base > last:
            return []
        overlapping = partition.in_flight.beginning_in(min(self.batches[0].base_offset, base), last)
        if not overlapping:
            self._acquire_new(base, last)
        else:
            self._acquire_overlapping(overlapping, base, last)
        return self._without_aborted(aborted)

    def _limit(self, fetch_offset: int) -> int:
        """Set `max_records` to the number of records that may be acquired, and return the last offset that may be acquired.

        If group.share.partition.max.record.locks permits no further records, only records up to the end offset, which were acquired before,
        may be acquired again.
        """
        partition, last = self.partition, self.batches[-1].last_offset
        self.max_records = min(self.request.max_records, partition.locks_left)
        if self.max_records <= 0 and fetch_offset <= partition.end_offset:
            self.max_records = min(self.request.max_records, partition.end_offset - fetch_offset + 1)
            last = min(last, partition.end_offset)
        return last

    def _archive_missing(self, fetch_offset: int, base_offset: int) -> None:
        """Archive the available records between the fetch offset and `base_offset`, the start of the first fetched batch. They were
        acquired before, but compaction has removed them from the log."""
        partition = self.partition
        if not partition.in_flight or fetch_offset >= base_offset:
            return
        missing = [batch for batch in partition.in_flight.overlapping(fetch_offset, base_offset - 1) if batch.last_offset >= fetch_offset]
        archived = partition.archive(missing, fetch_offset, base_offset - 1, RecordState.AVAILABLE)
        partition.delivery_complete_count += archived
        if archived:
            partition.may_have_available = True
            partition.trim()

    # --- records in flight -------------------------------------------------------------------------------------------------------

    def _acquire_overlapping(self, overlapping: Sequence[InFlightBatch], base: int, last: int) -> None:
        partition, gap = self.partition, base
        for batch in overlapping:
            if self.left <= 0:
                break
            if partition.open_gap is not None:
                if gap < batch.first_offset:
                    self._acquire_new(gap, batch.first_offset - 1)
                gap = batch.last_offset + 1
                if self.left <= 0:
                    break
            if not self._acquire_again(batch, last):
                self.max_records = 0
        behind = overlapping[-1].last_offset + 1
        if self.left > 0 and behind <= last:
            self._acquire_new(behind, last)
        if self.acquired:
            partition.fetched_to(self.acquired[-1].last_offset + 1)
        elif self.left > 0:
            partition.fetched_to(last + 1)  # Kafka does not move the gap then, and may fetch the same offset forever

    def _acquire_again(self, batch: InFlightBatch, last: int) -> bool:
        """Acquire the available records of a batch in flight (one that was acquired before), up to the offset `last`. Return False if this
        request must not acquire records of later batches, because this batch has records that were delivered so often that only few of them
        are delivered together."""
        first = max(self.batches[0].base_offset, self.partition.start_offset)
        throttled = self._is_throttled(batch, first, last)
        if throttled and self.count:
            return False
        too_many = self.request.record_limit and len(batch) > self.left
        if batch.is_split or throttled or too_many or not batch.within(first, last):
            if not batch.is_split and not batch.whole.is_available:
                return True
            count = self._acquire_part(batch, first, last)
            return not (throttled and count)
        if batch.whole.is_available:
            batch.whole.acquire(self.request.member_id, self._lock(batch))
            self._add(AcquiredRecords(batch.first_offset, batch.last_offset, batch.whole.delivery_count))
        return True

    def _is_throttled(self, batch: InFlightBatch, first: int, last: int) -> bool:
        throttle_from = self.partition.settings().throttle_from
        return any(
            run.state.delivery_count >= throttle_from
            for run in batch.runs
            if run.state.is_available and (not batch.is_split or (run.last_offset >= first and run.first_offset <= last))
        )

    def _acquire_part(self, batch: InFlightBatch, first: int, last: int) -> int:
        """Acquire the available records of a batch in flight that lie in the range of offsets. Return their number."""
        settings = self.partition.settings()
        limit, throttle_from = settings.delivery_count_limit, settings.throttle_from
        acquired: list[AcquiredRecords] = []
        count, left, throttled_to = 0, self.left, 0
        batch.is_split = True
        for run in [run for run in batch.part(first, last) if run.state.is_available]:
            delivered = run.state.delivery_count
            alone = limit > 2 and delivered == limit - 1
            if alone and count:
                break
            if delivered >= throttle_from and not throttled_to:
                throttled_to = max(1, len(batch) >> (delivered - throttle_from + 1))
            max_records = 1 if alone else len(run)
            if self.request.record_limit:
                max_records = min(max_records, left - count)
            if throttled_to > count:
                max_records = min(max_records, throttled_to - count)
            if max_records < len(run):
                batch.split_at(run.first_offset + max_records)
            run.state.acquire(self.request.member_id, self._lock(run))
            _extend(acquired, AcquiredRecords(run.first_offset, run.last_offset, run.state.delivery_count))
            count += len(run)
            if alone or count == throttled_to or (self.request.record_limit and count == left):
                break
        self.acquired += acquired
        self.count += count
        return count

    # --- new records -------------------------------------------------------------------------------------------------------------

    def _acquire_new(self, first: int, last: int) -> None:
        """Acquire the records from `first` to `last`, none of which is in flight. If `max_records` is reached within a batch of the log,
        acquire that batch to its end; with a strict `record_limit`, make the rest of the batch available to other members instead."""
        partition = self.partition
        first = max(first, partition.start_offset if partition.in_flight else partition.end_offset)
        if first > last:
            return
        if self.left < last - first + 1:
            end = _end_of_batch(self.batches, first + self.left - 1)
            last = end if partition.open_gap is None else min(end, last)
        if self.request.record_limit:
            acquired = [self._acquire_up_to_limit(first, last)]
        else:
            acquired = _split_by_size(self.batches, first, last, self.request.batch_size)
            deadline = partition.lock(first, last, self.request.now_ms)
            for part in acquired:
                state = InFlightState(RecordState.ACQUIRED, 1, self.request.member_id, deadline)
                partition.in_flight.add(InFlightBatch(part.first_offset, part.last_offset, state))
        if partition.in_flight.first.first_offset == first:
            partition.start_offset = first
        partition.end_offset = max(partition.end_offset, last)
        for part in acquired:
            self._add(part)
        partition.fetched_to(acquired[-1].last_offset + 1)

    def _acquire_up_to_limit(self, first: int, last: int) -> AcquiredRecords:
        partition = self.partition
        acquired = AcquiredRecords(first, min(last, first + self.left - 1), 1)
        deadline = self._lock(acquired)
        batch = InFlightBatch(first, last, InFlightState(RecordState.ACQUIRED, 1, self.request.member_id, deadline))
        if acquired.last_offset < last:
            rest = batch.part(acquired.last_offset + 1, last)
            rest[0].state = InFlightState(RecordState.AVAILABLE, 0, NO_MEMBER)
            partition.may_have_available = True
        partition.in_flight.add(batch)
        return acquired

    # --- helpers -----------------------------------------------------------------------------------------------------------------

    def _lock(self, part: AcquiredRecords | InFlightBatch | Run) -> int:
        return self.partition.lock(part.first_offset, part.last_offset, self.request.now_ms)

    def _add(self, acquired: AcquiredRecords) -> None:
        self.acquired.append(acquired)
        self.count += acquired.record_count

    def _without_aborted(self, aborted: Sequence[Fetched]) -> list[AcquiredRecords]:
        partition = self.partition
        for base, last in aborted:
            batches = partition.in_flight.overlapping(base, last)
            partition.delivery_complete_count += partition.archive(batches, base, last, RecordState.ACQUIRED)
        if not aborted:
            return self.acquired
        partition.trim()  # Kafka waits for the next acknowledgement, which never comes if aborted records alone fill the limit
        return without_aborted(self.acquired, aborted)


def _extend(acquired: list[AcquiredRecords], more: AcquiredRecords) -> None:
    """Append a range of records to `acquired`. If it is adjacent to the last range and has the same delivery count, extend that range
    instead."""
    if acquired and acquired[-1].last_offset + 1 == more.first_offset and acquired[-1].delivery_count == more.delivery_count:
        acquired[-1] = acquired[-1]._replace(last_offset=more.last_offset)
    else:
        acquired.append(more)


def _split_by_size(batches: Sequence[Fetched], first: int, last: int, size: int) -> list[AcquiredRecords]:
    """Split the range of offsets into parts of at least `size` records, only at the first offsets of log batches; the last part may be
    smaller."""
    parts: list[AcquiredRecords] = []
    if last - first + 1 > size:
        for base, _ in batches:
            if base > last:
                break
            if base - first >= size:
                parts.append(AcquiredRecords(first, base - 1, 1))
                first = base
    return [*parts, AcquiredRecords(first, last, 1)]


def _end_of_batch(batches: Sequence[Fetched], offset: int) -> int:
    """Return the last offset of the batch that contains `offset`, or `offset` if it lies between batches."""
    containing = None
    for batch in batches:
        if batch.base_offset > offset:
            break
        containing = batch
    return containing.last_offset if containing is not None and offset <= containing.last_offset else offset

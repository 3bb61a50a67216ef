"""A share partition: a topic partition as one share group sees it, with the delivery state of its records (Kafka's SharePartition). No I/O.

Invariants:
* The records in flight lie between the start offset (the first that is not settled) and the end offset (the last that was ever acquired).
  Records below are acknowledged or archived, those above were never delivered.
* A record has one state. A member owns exactly the records that it acquired and that were neither acknowledged, released nor timed out.
* A delivery count never decreases. It increases with each acquisition.
* Acknowledgements and releases take effect when their write succeeds (`begin`, then `commit` or `roll_back`). An expired lock takes effect
  at once, because the member may not keep the record, whatever happens to the write.
* If the group has a dead letter queue, a record that is rejected or was delivered too often is ARCHIVING until its dead letter was written,
  or could not be. The write of the dead letter begins when that state is durable, and again if `load` reads that state.
* The persisted state may lack records that were in flight when it was written; then `load` finds unused offsets between its batches.
  `open_gap` is the first of these offsets; they are fetched again until new records are acquired.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.broker.core.rejected import Rejected
from ottla.broker.share.dead_letters import DELIVERED_TOO_OFTEN, REJECTED, DeadLetters
from ottla.broker.share.in_flight import NO_LOCK, InFlight, InFlightBatch, InFlightState, RecordState, Run
from ottla.broker.share.persister import ReadState, StateBatch, WrittenState
from ottla.broker.share.settings import ShareSettings
from ottla.protocol.error_codes import ErrorCode

_LOCKS_AT_LEAST = 64
"""Outdated entries are removed from `_locks`, the heap of lock deadlines, only if it has at least this many entries."""


class AcquiredRecords(NamedTuple):
    """A range of records that a member has acquired, with their delivery count."""

    first_offset: int
    last_offset: int
    delivery_count: int

    @property
    def record_count(self) -> int:
        """The number of offsets in the range, including the first and the last."""
        return self.last_offset - self.first_offset + 1


class StateUpdate:
    """State changes of a share partition that are persisted by one write.

    `SharePartition.commit` makes all of them final, and `roll_back` undoes all of them. `batches` are the changed states for the persister;
    `dead_letters` are to be written once that write has succeeded.
    """

    __slots__ = ("batches", "dead_letters")

    def __init__(self) -> None:
        self.batches: list[StateBatch] = []
        self.dead_letters: list[DeadLetters] = []


class SharePartition:
    """A share partition at its leader: its start and end offset, and the delivery state of its records in flight. `settings` returns the
    group's current settings."""

    def __init__(self, settings: Callable[[], ShareSettings], leader_epoch: int) -> None:
        self.settings = settings
        self.leader_epoch = leader_epoch
        self.state_epoch = 0
        self.start_offset = 0
        self.end_offset = 0
        self.delivery_complete_count = 0
        """The number of records at or above the start offset that are acknowledged or archived."""
        self.in_flight = InFlight()
        self.may_have_available = False
        """False if no record in flight is available, so that the next fetch need not look for one. True means that there may be some."""
        self.dead_letters: list[DeadLetters] = []
        """Records in the persisted state ARCHIVING whose dead letters must still be written. The caller takes them from this list and
        writes the dead letters."""
        self._gap: tuple[int, int] | None = None
        """Offsets that the loaded state does not contain, although their records may have been in flight. The range is (first offset that
        may have to be fetched again, end offset at the load). None if no offset is missing."""
        self._locks: list[tuple[int, int, int]] = []
        """A heap of the deadlines of acquisition locks: (monotonic time in ms, first offset, last offset). An entry is outdated when its
        records have got another deadline."""
        self._max_locks = _LOCKS_AT_LEAST

    # --- persisted state ---------------------------------------------------------------------------------------------------------

    def load(self, read: ReadState, start_offset: int) -> None:
        """Initialize this share partition from its persisted state. `start_offset` is the persisted start offset or, if that is
        uninitialized, the offset at which the group starts.

        Raises Rejected(UNKNOWN_SERVER_ERROR) if a batch in the state begins below `start_offset` or ends before it begins.
        """
        self.state_epoch = read.state_epoch
        self.start_offset = self.end_offset = start_offset
        expected, gap = start_offset, None
        for first, last, state, delivery_count in read.batches:
            if first < start_offset or last < first:
                raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, f"state batch {first}-{last} is invalid: the state starts at {start_offset}")
            if gap is None and first > expected:
                gap = expected
            expected = last + 1
            batch = InFlightBatch(first, last, InFlightState(RecordState(state), delivery_count))
            self.in_flight.add(batch)
            self.delivery_complete_count += len(batch) if batch.whole.state.is_terminal else 0
            if batch.whole.state is RecordState.ARCHIVING:
                cause = DELIVERED_TOO_OFTEN if delivery_count >= self.settings().delivery_count_limit else REJECTED
                self.dead_letters.append(DeadLetters(first, last, delivery_count, cause))
        if self.in_flight:
            self.may_have_available = True
            self.end_offset = self.in_flight.last.last_offset
            self._gap = None if gap is None else (gap, self.end_offset)
            self.trim()

    def state_to_write(self, batches: Sequence[StateBatch]) -> WrittenState:
        """Return the argument of `Persister.write` that has these changed batches, the present epochs and start offset, and the number of
        completed deliveries."""
        return WrittenState(self.state_epoch, self.leader_epoch, self.start_offset, self.delivery_complete_count, batches)

    # --- what to fetch -----------------------------------------------------------------------------------------------------------

    @property
    def in_flight_count(self) -> int:
        """The number of offsets from the start offset to the end offset, both included; 0 if no record is in flight.
        group.share.partition.max.record.locks limits this number."""
        return self.end_offset - self.start_offset + 1 if self.in_flight else 0

    @property
    def can_acquire(self) -> bool:
        """Whether a fetch may acquire records: a record in flight is available, or the limit of records in flight permits new ones.

        Records that were archived when a write failed (`roll_back`) do not count, although, as in Kafka, they stay in flight until the next
        acknowledgement. (In Kafka they count; if they fill the limit, there is no next acknowledgement.)
        """
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.locks_left > 0 or (self.trim() and self.locks_left > 0)

    @property
    def locks_left(self) -> int:
        """The number of further records that may be in flight (group.share.partition.max.record.locks). It can be negative, because whole
        batches are acquired."""
        return self.settings().partition_max_record_locks - self.in_flight_count

    def next_fetch_offset(self) -> int:
        """Return the offset from which the next fetch reads: that of the first available record in flight or, if there is none, of the
        first record that was never acquired."""
        if not self.in_flight or self.start_offset > self.in_flight.last.last_offset:
            self.may_have_available = False
            return self.end_offset
        if self.may_have_available:
            offset = self._first_available()
            if offset is not None:
                return offset
            self.may_have_available = False
            if self._gap is not None:  # Kafka keeps it open, and then neither trims nor fetches if the settled records fill the limit
                self._gap = None
                self.trim()
        return self.end_offset + 1 if self.in_flight else self.end_offset

    def _first_available(self) -> int | None:
        missing = self.open_gap
        for batch in self.in_flight:
            if missing is not None:
                if batch.first_offset > missing:
                    return missing
                missing = max(missing, batch.last_offset + 1)
            for run in batch.runs:
                if run.state.is_available:
                    return run.first_offset
        return None

    @property
    def open_gap(self) -> int | None:
        """The first offset that the loaded state does not contain and that may have to be fetched again; None if there is none any more.

        When new records are acquired, no offset has to be fetched again.
        """
        return self._gap[0] if self._gap is not None and self._gap[1] == self.end_offset else None

    def fetched_to(self, offset: int) -> None:
        """Record that all offsets below `offset` were fetched, so that `open_gap` (the first offset that must be fetched again) becomes
        `offset`. If `offset` is past the end offset, nothing has to be fetched again."""
        still_open = self.open_gap is not None and offset <= self.end_offset
        self._gap = (offset, self.end_offset) if still_open else None

    # --- locks -------------------------------------------------------------------------------------------------------------------

    def lock(self, first_offset: int, last_offset: int, now_ms: int) -> int:
        """Return the deadline (monotonic ms) of the acquisition lock of records that a member acquires or renews at `now_ms`, and register
        this deadline for `expire_locks`."""
        if len(self._locks) >= self._max_locks:
            self._locks = [lock for lock in self._locks if self._is_current(*lock)]
            heapq.heapify(self._locks)
            self._max_locks = max(_LOCKS_AT_LEAST, 2 * len(self._locks))
        deadline = now_ms + self.settings().record_lock_duration_ms
        heapq.heappush(self._locks, (deadline, first_offset, last_offset))
        return deadline

    def _is_current(self, deadline: int, first_offset: int, last_offset: int) -> bool:
        return any(run.state.lock_deadline_ms == deadline for run in self.runs(first_offset, last_offset))

    @property
    def watched_locks(self) -> int:
        """The number of registered lock deadlines that `expire_locks` will check, including some that are outdated."""
        return len(self._locks)

    @property
    def next_lock_deadline_ms(self) -> int | None:
        """The monotonic time in ms at which `expire_locks` must be called; None if no lock is registered. There may be nothing to expire at
        that time, because the registered deadline may be outdated."""
        return self._locks[0][0] if self._locks else None

    def expire_locks(self, now_ms: int) -> list[StateBatch]:
        """Make records available again if their acquisition locks have expired. Records at the delivery count limit become ARCHIVED
        instead, or ARCHIVING if the group has a dead letter queue. Return the state changes to persist."""
        expired: list[StateBatch] = []
        while self._locks and self._locks[0][0] <= now_ms:
            _, first, last = heapq.heappop(self._locks)
            for batch in self.in_flight.overlapping(first, last):
                if batch.straddles(self.start_offset):
                    batch.split_at(self.start_offset)
                for run in batch.overlapping(first, last):
                    self._expire(run, now_ms, expired)
        return expired

    def _expire(self, run: Run, now_ms: int, expired: list[StateBatch]) -> None:
        state = run.state
        if state.state is not RecordState.ACQUIRED or not NO_LOCK < state.lock_deadline_ms <= now_ms:
            return
        gone = run.last_offset < self.start_offset
        settings = self.settings()
        if not state.move(
            RecordState.ARCHIVED if gone else RecordState.AVAILABLE, settings.delivery_count_limit, settings.undeliverable_state
        ):
            return
        state.lock_deadline_ms = NO_LOCK
        expired.append(_persisted(run))
        self._count_if_terminal(run)
        self.may_have_available = True

    def add_expired_dead_letters(self, expired: Iterable[StateBatch]) -> None:
        """Add to `dead_letters` the dead letters for those of the `expired` records that became ARCHIVING when their locks expired. They
        are added whether or not the write of that state succeeded."""
        for first, last, state, delivery_count in expired:
            if state == RecordState.ARCHIVING:
                self.dead_letters.append(DeadLetters(first, last, delivery_count, DELIVERED_TOO_OFTEN))

    # --- transitions -------------------------------------------------------------------------------------------------------------

    def begin(self, update: StateUpdate, run: Run, state: RecordState) -> bool:
        """Begin to change the state of a run (consecutive records with the same delivery state) to `state`, as part of `update`. If the
        present state does not allow this or another change is pending, change nothing and return False."""
        settings = self.settings()
        if not run.state.begin(update, state, settings.delivery_count_limit, settings.undeliverable_state):
            return False
        update.batches.append(_persisted(run))
        if run.state.state is RecordState.ARCHIVING:
            cause = REJECTED if state is RecordState.ARCHIVING else DELIVERED_TOO_OFTEN
            update.dead_letters.append(DeadLetters(run.first_offset, run.last_offset, run.state.delivery_count, cause))
        self._count_if_terminal(run)
        return True

    def commit(self, update: StateUpdate) -> bool:
        """Make the state changes of `update` final after its write has succeeded, and add its dead letters to `dead_letters`. Then remove
        the records whose delivery state is final from the beginning of those in flight (`trim`). Return whether the start offset has moved.
        """
        for run in self._changing(update):
            run.state.commit()
            if run.state.state is RecordState.AVAILABLE:
                self.may_have_available = True
        self.dead_letters += [each for each in update.dead_letters if any(self._archiving(each))]
        return self.trim()

    def archive_dead_letters(self, letters: DeadLetters) -> StateBatch:
        """Archive records after their dead letters were written, or could not be written. Return the state change to persist."""
        for run in self._archiving(letters):
            run.state.archive()
        self.delivery_complete_count += self._count_in_flight(letters.first_offset, letters.last_offset)
        return StateBatch(letters.first_offset, letters.last_offset, RecordState.ARCHIVED, letters.delivery_count)

    def _archiving(self, letters: DeadLetters) -> Iterator[Run]:
        for run in self.runs(letters.first_offset, letters.last_offset):
            if run.state.state is RecordState.ARCHIVING:
                yield run

    def roll_back(self, update: StateUpdate, now_ms: int) -> None:
        """Undo the state changes of `update`, because its write failed or one of its changes is not allowed."""
        for run in self._changing(update):
            was_terminal = run.state.state.is_terminal
            run.state.roll_back(now_ms)
            if was_terminal and not run.state.state.is_terminal:
                self.delivery_complete_count -= self._count_in_flight(run.first_offset, run.last_offset)
            elif not was_terminal:  # Kafka does not count an ARCHIVING record that becomes ARCHIVED here; its count then falls below 0
                self._count_if_terminal(run)
            if run.state.state is RecordState.AVAILABLE:
                self.may_have_available = True
        if self.in_flight and self.in_flight.first.first_offset < self.start_offset:  # the log may have deleted them meanwhile
            below = self.in_flight.beginning_in(self.in_flight.first.first_offset, self.start_offset - 1)
            self.archive(below, self.in_flight.first.first_offset, self.start_offset - 1, RecordState.AVAILABLE)

    def _changing(self, update: StateUpdate) -> Iterator[Run]:
        for first, last, _, _ in update.batches:
            for run in self.runs(first, last):
                if run.state.change is update:
                    yield run

    def release(self, member_id: str) -> StateUpdate:
        """Begin to release all acquired records of a member that has left the group; their delivery counts do not change. Return the update
        to write."""
        update = StateUpdate()
        for batch in self.in_flight:
            if not any(run.state.state is RecordState.ACQUIRED and run.state.member_id == member_id for run in batch.runs):
                continue
            if batch.straddles(self.start_offset):
                batch.split_at(self.start_offset)
            for run in batch.runs:
                if run.state.state is RecordState.ACQUIRED and run.state.member_id == member_id:
                    gone = run.last_offset < self.start_offset
                    self.begin(update, run, RecordState.ARCHIVED if gone else RecordState.AVAILABLE)
        return update

    # --- the start offset --------------------------------------------------------------------------------------------------------

    def advance_to_log_start(self, log_start_offset: int) -> None:
        """Move the start offset up to the log start offset. Available records below it are archived; acquired ones stay acquired."""
        if log_start_offset <= self.start_offset:
            return
        if not self.in_flight:
            self.start_offset = self.end_offset = log_start_offset
            self.delivery_complete_count = 0
            return
        below = self.in_flight.beginning_in(self.in_flight.first.first_offset, log_start_offset - 1)
        counted = sum(
            max(0, min(run.last_offset, log_start_offset - 1) - max(run.first_offset, self.start_offset) + 1)
            for batch in below
            for run in batch.runs
            if run.state.state.is_terminal
        )
        if self.archive(below, self.start_offset, log_start_offset - 1, RecordState.AVAILABLE):
            self.may_have_available = True
        self.delivery_complete_count -= counted
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        if self._gap is not None:  # Kafka leaves it, and then fetches from below the log's start again and again
            self._gap = max(self._gap[0], log_start_offset), self._gap[1]

    def archive(self, batches: Iterable[InFlightBatch], first_offset: int, last_offset: int, state: RecordState) -> int:
        """Archive the records of `batches` that are in the range of offsets and have the delivery state `state`. Return the number of
        archived records."""
        archived = 0
        for batch in batches:
            if not batch.is_split and batch.whole.state is not state:
                continue
            for run in batch.part(first_offset, last_offset):
                if run.state.state is state:
                    run.state.archive()
                    archived += len(run)
        return archived

    def trim(self) -> bool:
        """Remove the settled records at the beginning of the records in flight, and move the start offset behind them. Settled means: the
        delivery state is final, and no write of it is pending. Return whether anything has changed."""
        if not self._can_move_start():
            return False
        settled_to, terminal = self._settled_front()
        if settled_to is None:
            return False
        if settled_to == self.in_flight.last.last_offset:
            self.start_offset = self.end_offset = settled_to + 1
            self.delivery_complete_count = 0
            self.in_flight.clear()
            return True
        batch = self.in_flight.floor(settled_to)
        assert batch is not None, "the settled records are in flight"
        if settled_to == batch.last_offset:
            behind = self.in_flight.higher(settled_to)
            assert behind is not None, "the batch is not the last"
            self.start_offset = max(self.start_offset, behind.first_offset)
            if self.open_gap is not None:
                self.start_offset = min(self.start_offset, self.open_gap)
            self.in_flight.remove_before(behind.first_offset)
        else:
            self.start_offset = max(self.start_offset, settled_to + 1)
            self.in_flight.remove_before(batch.first_offset)
        self.delivery_complete_count -= terminal
        return True

    def _can_move_start(self) -> bool:
        """Return whether the record at the start offset is settled: its delivery state is final, and no write of it is pending. Return
        False if the offset must be fetched again (`open_gap`).

        If the start offset is below the first batch in flight and need not be fetched again, the log has no record there, and the first
        batch decides. (Kafka does not move the start offset then.)
        """
        batch = self.in_flight.floor(self.start_offset)
        if batch is None:
            if not self.in_flight or (self.open_gap is not None and self.open_gap < self.in_flight.first.first_offset):
                return False
            batch = self.in_flight.first
        run = next((run for run in batch.runs if run.last_offset >= self.start_offset), batch.runs[-1])
        return run.state.is_settled

    def _settled_front(self) -> tuple[int | None, int]:
        """Return the last offset of the settled records at the beginning of the records in flight (None if there are none), and how many of
        their offsets `delivery_complete_count` includes.

        A record is settled if its delivery state is final and no write of it is pending. The search ends at the first record that is not
        settled, or at `open_gap`.
        """
        settled_to, terminal = None, 0
        for batch in self.in_flight:
            if self.open_gap is not None and batch.last_offset >= self.open_gap:
                break
            for run in batch.runs:
                if not run.state.is_settled:
                    return settled_to, terminal
                settled_to = run.last_offset
                terminal += self._count_in_flight(run.first_offset, run.last_offset)
        return settled_to, terminal

    # --- helpers -----------------------------------------------------------------------------------------------------------------

    def runs(self, first_offset: int, last_offset: int) -> Iterator[Run]:
        """Yield the runs (consecutive records with the same delivery state) that have offsets in the range."""
        for batch in self.in_flight.overlapping(first_offset, last_offset):
            yield from batch.overlapping(first_offset, last_offset)

    def _count_if_terminal(self, run: Run) -> None:
        if run.state.state.is_terminal:
            self.delivery_complete_count += self._count_in_flight(run.first_offset, run.last_offset)

    def _count_in_flight(self, first_offset: int, last_offset: int) -> int:
        return max(0, last_offset - max(self.start_offset, first_offset) + 1)


def _persisted(run: Run) -> StateBatch:
    return StateBatch(run.first_offset, run.last_offset, run.state.state, run.state.delivery_count)

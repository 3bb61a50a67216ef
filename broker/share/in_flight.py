"""The delivery state of records in flight (KAFKA InFlightState, InFlightBatch, RecordState).

Kafka tracks a batch as a whole while all its records are in one state, and each offset once they differ. Here a batch has one object for
each run of consecutive records with the same state, so its memory depends on the number of runs, not of records.

A change that has to be persisted begins as a transition: the new state is visible at once, so that no other request acquires the record,
and the old state is kept until the write succeeds or fails.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

NO_MEMBER: Final = ""
"""The member id of a record that is not acquired."""
NO_LOCK: Final = -1


class RecordState(IntEnum):
    """The delivery state of a record, with its number in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Rejected, or delivered too often; the record in the group's dead letter queue is not written yet (KIP-1191)."""
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the delivery state is final. ARCHIVING is not: such a record is never delivered again, but still becomes ARCHIVED."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


VALID_TRANSITIONS: Final[dict[RecordState, frozenset[RecordState]]] = {
    RecordState.AVAILABLE: frozenset({RecordState.ACQUIRED}),
    RecordState.ACQUIRED: frozenset(
        {RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED},
    ),
    RecordState.ACKNOWLEDGED: frozenset(),
    RecordState.ARCHIVING: frozenset({RecordState.ARCHIVED}),
    RecordState.ARCHIVED: frozenset(),
}
"""The transitions that members, lock timeouts and dead letters cause. `InFlightState.archive` is not limited by this table: it archives a
record in any state."""


class InFlightState:
    """The delivery state, delivery count, owner and acquisition lock that a run of records has in common."""

    __slots__ = ("_archived", "_before", "change", "delivery_count", "lock_deadline_ms", "member_id", "state")

    def __init__(self, state: RecordState, delivery_count: int, member_id: str = NO_MEMBER, lock_deadline_ms: int = NO_LOCK) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock_deadline_ms = lock_deadline_ms
        self.change: object | None = None
        """The update whose write ends the pending transition of these records; None if no transition is pending."""
        self._before: tuple[RecordState, str, int] | None = None
        self._archived = False

    @property
    def is_available(self) -> bool:
        """Whether a member may acquire the records."""
        return self.state is RecordState.AVAILABLE and self.change is None

    @property
    def is_settled(self) -> bool:
        """Whether the records' delivery state is final and no write of it is pending."""
        return self.state.is_terminal and self.change is None

    def copy(self) -> InFlightState:
        """Return a copy of the state, for a run of records that is split in two. If a transition is pending, both parts belong to it."""
        copy = InFlightState(self.state, self.delivery_count, self.member_id, self.lock_deadline_ms)
        copy.change, copy._before, copy._archived = self.change, self._before, self._archived
        return copy

    def acquire(self, member_id: str, lock_deadline_ms: int) -> None:
        """Assign available records to a member, and increment their delivery count."""
        assert self.is_available, "only an available record can be acquired"
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.lock_deadline_ms = lock_deadline_ms

    def move(self, state: RecordState, delivery_count_limit: int, undeliverable_state: RecordState = RecordState.ARCHIVED) -> bool:
        """Move the records to `state` at once, without an owner. Records whose delivery count has reached the limit get the
        state `undeliverable_state` instead of AVAILABLE. Return False, and change nothing, if `VALID_TRANSITIONS` forbids the move or a
        transition is pending."""
        if self.change is not None:
            return False
        if state is RecordState.AVAILABLE and self.delivery_count >= delivery_count_limit:
            state = undeliverable_state
        if state not in VALID_TRANSITIONS[self.state]:
            return False
        self.state = state
        self.member_id = NO_MEMBER
        return True

    def begin(
        self, change: object, state: RecordState, delivery_count_limit: int, undeliverable_state: RecordState = RecordState.ARCHIVED
    ) -> bool:
        """Move the records like `move`, but as a transition of the update `change`, which `commit` or `roll_back` ends. Return False, and
        change nothing, if `VALID_TRANSITIONS` forbids it or another transition is pending.
        """
        before = self.state, self.member_id, delivery_count_limit
        moved = self.move(state, delivery_count_limit, undeliverable_state)
        if moved:
            self._before, self.change = before, change
        return moved

    def commit(self) -> None:
        """End the pending transition after its write succeeded: the new state stays."""
        self._before = self.change = None
        self.lock_deadline_ms = NO_LOCK

    def roll_back(self, now_ms: int) -> None:
        """End the transition after its write failed: restore the records' former state and owner.

        Records whose acquisition lock has expired by now become available instead, or archived at the delivery count limit. They are not
        ARCHIVING, so they get no dead letter even if the group has a queue (KAFKA InFlightState.completeStateTransition). Records that
        `archive` has archived meanwhile stay archived.
        """
        assert self._before is not None, "no transition has begun"
        state, member_id, delivery_count_limit = self._before
        self._before = self.change = None
        if self._archived:
            return
        if self.lock_deadline_ms != NO_LOCK and self.lock_deadline_ms <= now_ms:
            self.state = RecordState.ARCHIVED if self.delivery_count >= delivery_count_limit else RecordState.AVAILABLE
            self.member_id = NO_MEMBER
            self.lock_deadline_ms = NO_LOCK
        else:
            self.state, self.member_id = state, member_id

    def archive(self) -> None:
        """Archive the records from any state, because the log no longer has them, their transaction was aborted, or their dead letters
        were written (or could not be)."""
        self._archived = True
        self.state = RecordState.ARCHIVED
        self.member_id = NO_MEMBER
        self.lock_deadline_ms = NO_LOCK


class Run:
    """Consecutive records of one `InFlightBatch` that have the same delivery state. `last_offset` is included."""

    __slots__ = ("first_offset", "last_offset", "state")

    def __init__(self, first_offset: int, last_offset: int, state: InFlightState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.state = state

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1


class InFlightBatch:
    """A batch in flight: the offsets that were acquired together. `runs` cover them in order. `is_split` says whether the records may
    differ in state."""

    __slots__ = ("first_offset", "is_split", "last_offset", "runs")

    def __init__(self, first_offset: int, last_offset: int, state: InFlightState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.runs = [Run(first_offset, last_offset, state)]
        self.is_split = False

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def whole(self) -> InFlightState:
        """The delivery state that all records of the batch share. The batch must not be split."""
        assert not self.is_split, "the records may differ"
        return self.runs[0].state

    def split_at(self, offset: int) -> None:
        """Split the run of records that contains the offset, so that a run begins at the offset."""
        self.is_split = True
        at = bisect_right(self.runs, offset, key=_first) - 1
        if at >= 0 and (run := self.runs[at]).first_offset < offset <= run.last_offset:
            self.runs.insert(at + 1, Run(offset, run.last_offset, run.state.copy()))
            run.last_offset = offset - 1

    def part(self, first_offset: int, last_offset: int) -> list[Run]:
        """Return the runs of the batch that cover exactly its offsets in the range, after splitting runs at both ends of the range."""
        if first_offset > self.first_offset:
            self.split_at(first_offset)
        if last_offset < self.last_offset:
            self.split_at(last_offset + 1)
        return self.runs[bisect_left(self.runs, first_offset, key=_first) : bisect_right(self.runs, last_offset, key=_first)]

    def overlapping(self, first_offset: int, last_offset: int) -> Iterator[Run]:
        """Yield the runs of the batch that have offsets in the range. The first is found by binary search, because a batch may have
        thousands of runs.
        """
        at = max(0, bisect_right(self.runs, first_offset, key=_first) - 1)
        while at < len(self.runs) and (run := self.runs[at]).first_offset <= last_offset:
            if run.last_offset >= first_offset:
                yield run
            at += 1

    def within(self, first_offset: int, last_offset: int) -> bool:
        """Return whether all offsets of the batch are in the range."""
        return first_offset <= self.first_offset and self.last_offset <= last_offset

    def straddles(self, offset: int) -> bool:
        """Return whether the batch has offsets below `offset` and others at or above it."""
        return self.first_offset < offset <= self.last_offset


def _first(part: InFlightBatch | Run) -> int:
    return part.first_offset


class InFlight:
    """The batches in flight, in the order of their offsets. They do not overlap."""

    __slots__ = ("batches",)

    def __init__(self) -> None:
        self.batches: list[InFlightBatch] = []

    def __bool__(self) -> bool:
        return bool(self.batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self.batches)

    @property
    def first(self) -> InFlightBatch:
        return self.batches[0]

    @property
    def last(self) -> InFlightBatch:
        return self.batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch in flight. It must not overlap with another."""
        insort(self.batches, batch, key=_first)

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch in flight that begins at or before the offset, or None."""
        at = bisect_right(self.batches, offset, key=_first)
        return self.batches[at - 1] if at else None

    def higher(self, offset: int) -> InFlightBatch | None:
        """Return the first batch in flight that begins after the offset, or None."""
        at = bisect_right(self.batches, offset, key=_first)
        return self.batches[at] if at < len(self.batches) else None

    def beginning_in(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches in flight that begin in the range, both ends included."""
        return self.batches[bisect_left(self.batches, first_offset, key=_first) : bisect_right(self.batches, last_offset, key=_first)]

    def overlapping(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches that begin in the range, and the one before them, which may reach into the range."""
        floor = self.floor(first_offset)
        return self.beginning_in(first_offset if floor is None else floor.first_offset, last_offset)

    def remove_before(self, offset: int) -> None:
        """Remove all batches in flight that begin before the offset."""
        del self.batches[: bisect_left(self.batches, offset, key=_first)]

    def clear(self) -> None:
        """Remove all batches in flight."""
        self.batches.clear()

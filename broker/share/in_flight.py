"""The delivery state of a share partition's records in flight: those from the first that is not settled to the last that was ever acquired
(Kafka's InFlightState, InFlightBatch, RecordState). A record is settled if its delivery state is final and durable.

Kafka tracks a batch as a whole while all its records are in one state, and each offset once they differ. Here a batch has one object for
each run of consecutive records with the same state, so its memory depends on the number of runs, not of records.

A change that has to be persisted is a transition: the new state is visible at once, so that no other request acquires the record, and the
old state is kept until the write has succeeded or failed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

NO_MEMBER: Final = ""
"""The member id of a record that no member has acquired at present."""
NO_LOCK: Final = -1


class RecordState(IntEnum):
    """The delivery state of a record in a share partition. The values are those in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """The record was rejected or delivered too often, but its dead letter in the group's dead letter queue is not written yet
    (KIP-1191)."""
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the delivery state is final. ARCHIVING is not final: such a record is never delivered again, but it becomes ARCHIVED
        later."""
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
"""For each delivery state: the states to which members, lock timeouts and dead letters can change it. `InFlightState.archive` may archive a
record in any state, in spite of this table."""


class InFlightState:
    """The delivery state, delivery count, owner (member) and acquisition lock of a run: consecutive records for which all of these are the
    same."""

    __slots__ = ("_archived", "_before", "change", "delivery_count", "lock_deadline_ms", "member_id", "state")

    def __init__(self, state: RecordState, delivery_count: int, member_id: str = NO_MEMBER, lock_deadline_ms: int = NO_LOCK) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock_deadline_ms = lock_deadline_ms
        self.change: object | None = None
        """The pending update of the persisted state that includes these records; until its write has ended, their new state is pending.
        None if no update is pending."""
        self._before: tuple[RecordState, str, int] | None = None
        self._archived = False

    @property
    def is_available(self) -> bool:
        """Whether a member may acquire the records: they are AVAILABLE and no state change is pending."""
        return self.state is RecordState.AVAILABLE and self.change is None

    @property
    def is_settled(self) -> bool:
        """Whether the records' delivery state is final, and no write of it is pending."""
        return self.state.is_terminal and self.change is None

    def copy(self) -> InFlightState:
        """Return a copy of the state, for splitting a run of records into two. If a state change is pending, it applies to both parts."""
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
        """Change the records to `state` at once, without an owner. Records whose delivery count has reached `delivery_count_limit` get
        `undeliverable_state` instead of AVAILABLE. If `VALID_TRANSITIONS` forbids the change or another is pending, change nothing and
        return False."""
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
        """Change the records as `move` does, but leave the change pending: it belongs to the update `change`, and `commit` or `roll_back`
        ends it. If `VALID_TRANSITIONS` forbids the change or another is pending, change nothing and return False."""
        before = self.state, self.member_id, delivery_count_limit
        moved = self.move(state, delivery_count_limit, undeliverable_state)
        if moved:
            self._before, self.change = before, change
        return moved

    def commit(self) -> None:
        """End the pending state change after its write has succeeded: the new state stays."""
        self._before = self.change = None
        self.lock_deadline_ms = NO_LOCK

    def roll_back(self, now_ms: int) -> None:
        """End the pending state change after its write has failed: restore the records' former state and owner.

        If the records' acquisition lock has expired meanwhile, they become AVAILABLE instead or, at the delivery count limit, ARCHIVED.
        They do not become ARCHIVING, so they get no dead letter even if the group has a queue (Kafka's
        InFlightState.completeStateTransition). Records that `archive` has archived meanwhile stay archived.
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
        """Archive the records, whatever their state. It is called if the log no longer has them, if their transaction was aborted, or after
        their dead letters were written or could not be written."""
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
    """A batch in flight: a range of offsets that were acquired together. `runs` are consecutive parts of it, each with one delivery state.
    If `is_split` is False, all records have the same state."""

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
        """The delivery state of all records of the batch. It may be read only if `is_split` is False."""
        assert not self.is_split, "the records may differ"
        return self.runs[0].state

    def split_at(self, offset: int) -> None:
        """Split the run that contains the offset in two, so that the second run begins at the offset. A run is a part of the batch with one
        delivery state."""
        self.is_split = True
        at = bisect_right(self.runs, offset, key=_first) - 1
        if at >= 0 and (run := self.runs[at]).first_offset < offset <= run.last_offset:
            self.runs.insert(at + 1, Run(offset, run.last_offset, run.state.copy()))
            run.last_offset = offset - 1

    def part(self, first_offset: int, last_offset: int) -> list[Run]:
        """Split the batch's runs (parts with one delivery state each) at both ends of the range of offsets. Return the runs inside the
        range."""
        if first_offset > self.first_offset:
            self.split_at(first_offset)
        if last_offset < self.last_offset:
            self.split_at(last_offset + 1)
        return self.runs[bisect_left(self.runs, first_offset, key=_first) : bisect_right(self.runs, last_offset, key=_first)]

    def overlapping(self, first_offset: int, last_offset: int) -> Iterator[Run]:
        """Yield the runs (parts of the batch with one delivery state each) that have offsets in the range. The first one is found by binary
        search, because a batch may have thousands of runs."""
        at = max(0, bisect_right(self.runs, first_offset, key=_first) - 1)
        while at < len(self.runs) and (run := self.runs[at]).first_offset <= last_offset:
            if run.last_offset >= first_offset:
                yield run
            at += 1

    def within(self, first_offset: int, last_offset: int) -> bool:
        """Return whether all offsets of the batch are in the range."""
        return first_offset <= self.first_offset and self.last_offset <= last_offset

    def straddles(self, offset: int) -> bool:
        """Return whether the batch has an offset below `offset` and another at or above it."""
        return self.first_offset < offset <= self.last_offset


def _first(part: InFlightBatch | Run) -> int:
    return part.first_offset


class InFlight:
    """All batches in flight (ranges of offsets that were acquired together) of a share partition, in ascending order. They do not
    overlap."""

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
        if not self.batches or batch.first_offset > self.batches[-1].first_offset:
            self.batches.append(batch)  # new records; one fetch may add thousands of batches
        else:
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
        """Return the batches in flight whose first offset is in the range, both ends included."""
        return self.batches[bisect_left(self.batches, first_offset, key=_first) : bisect_right(self.batches, last_offset, key=_first)]

    def overlapping(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches in flight that begin in the range of offsets, preceded by the last batch that begins before the range, because
        it may extend into it."""
        floor = self.floor(first_offset)
        return self.beginning_in(first_offset if floor is None else floor.first_offset, last_offset)

    def remove_before(self, offset: int) -> None:
        """Remove all batches in flight that begin before the offset."""
        del self.batches[: bisect_left(self.batches, offset, key=_first)]

    def clear(self) -> None:
        """Remove all batches in flight."""
        self.batches.clear()

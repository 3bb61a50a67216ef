"""The delivery state of records in flight (KAFKA InFlightState, InFlightBatch, RecordState).

Kafka tracks a batch as a whole while all its records are in one state, and each offset once they differ. Here a run of records with one
state takes one object, so a batch of a million records costs no more than its acknowledgements tell apart.

A change that has to be persisted begins as a transition: the new state is visible at once, so that no other request takes the record, and
the old one is kept until the write succeeds or fails.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

NO_MEMBER: Final = ""
"""The owner of a record that nobody has acquired."""
NO_LOCK: Final = -1


class RecordState(IntEnum):
    """The state of a record, with its number in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Given up, and on its way to the group's dead letter queue (KIP-1191)."""
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether nothing more happens to the record. It is not delivered again while it is archiving, either."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


MOVES: Final[dict[RecordState, frozenset[RecordState]]] = {
    RecordState.AVAILABLE: frozenset({RecordState.ACQUIRED}),
    RecordState.ACQUIRED: frozenset(
        {RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED},
    ),
    RecordState.ACKNOWLEDGED: frozenset(),
    RecordState.ARCHIVING: frozenset({RecordState.ARCHIVED}),
    RecordState.ARCHIVED: frozenset(),
}
"""What members, lock timeouts and dead letters may do. `archive` also ends records that are not acquired, because the log no longer has
them."""


class InFlightState:
    """State, delivery count, owner and acquisition lock of a run of records."""

    __slots__ = ("_archived", "_before", "change", "delivery_count", "lock_deadline_ms", "member_id", "state")

    def __init__(self, state: RecordState, delivery_count: int, member_id: str = NO_MEMBER, lock_deadline_ms: int = NO_LOCK) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock_deadline_ms = lock_deadline_ms
        self.change: object | None = None
        """The update whose write this transition waits for."""
        self._before: tuple[RecordState, str, int] | None = None
        self._archived = False

    @property
    def is_available(self) -> bool:
        """Whether a member may acquire it."""
        return self.state is RecordState.AVAILABLE and self.change is None

    @property
    def is_settled(self) -> bool:
        """Whether it is never delivered again, and this is durable."""
        return self.state.is_terminal and self.change is None

    def copy(self) -> InFlightState:
        """Return the same state for a part of the records. A transition goes on for both parts."""
        copy = InFlightState(self.state, self.delivery_count, self.member_id, self.lock_deadline_ms)
        copy.change, copy._before, copy._archived = self.change, self._before, self._archived
        return copy

    def acquire(self, member_id: str, lock_deadline_ms: int) -> None:
        """Give an available record to a member, which counts as a delivery."""
        assert self.is_available, "only an available record can be acquired"
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.lock_deadline_ms = lock_deadline_ms

    def move(self, state: RecordState, delivery_count_limit: int, given_up: RecordState = RecordState.ARCHIVED) -> bool:
        """Take the record from its owner, at once. Return False if this is not allowed now.

        A record that was delivered as often as the limit allows gets the state `given_up` instead of becoming available.
        """
        if self.change is not None:
            return False
        if state is RecordState.AVAILABLE and self.delivery_count >= delivery_count_limit:
            state = given_up
        if state not in MOVES[self.state]:
            return False
        self.state = state
        self.member_id = NO_MEMBER
        return True

    def begin(self, change: object, state: RecordState, delivery_count_limit: int, given_up: RecordState = RecordState.ARCHIVED) -> bool:
        """Begin a transition, which `commit` or `roll_back` ends. Return False if this is not allowed now."""
        before = self.state, self.member_id, delivery_count_limit
        moved = self.move(state, delivery_count_limit, given_up)
        if moved:
            self._before, self.change = before, change
        return moved

    def commit(self) -> None:
        """End the transition, whose write succeeded."""
        self._before = self.change = None
        self.lock_deadline_ms = NO_LOCK

    def roll_back(self, now_ms: int) -> None:
        """End the transition, whose write failed: the owner gets the record back, unless its lock has expired meanwhile."""
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
        """End the record for good, because the log no longer has it, its transaction was aborted, or it is in the dead letter queue."""
        self._archived = True
        self.state = RecordState.ARCHIVED
        self.member_id = NO_MEMBER
        self.lock_deadline_ms = NO_LOCK


class Run:
    """Neighbouring records with one state."""

    __slots__ = ("first_offset", "last_offset", "state")

    def __init__(self, first_offset: int, last_offset: int, state: InFlightState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.state = state

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1


class InFlightBatch:
    """Offsets that were acquired together. `runs` cover them in order. `is_split` says whether the records may differ in state."""

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
        """The state of all records."""
        assert not self.is_split, "the records may differ"
        return self.runs[0].state

    def cut(self, offset: int) -> None:
        """Let a run begin at the offset."""
        self.is_split = True
        at = bisect_right(self.runs, offset, key=_first) - 1
        if at >= 0 and (run := self.runs[at]).first_offset < offset <= run.last_offset:
            self.runs.insert(at + 1, Run(offset, run.last_offset, run.state.copy()))
            run.last_offset = offset - 1

    def part(self, first_offset: int, last_offset: int) -> list[Run]:
        """Return the runs of the offsets from `first_offset` to `last_offset`, as far as they are in the batch."""
        if first_offset > self.first_offset:
            self.cut(first_offset)
        if last_offset < self.last_offset:
            self.cut(last_offset + 1)
        return self.runs[bisect_left(self.runs, first_offset, key=_first) : bisect_right(self.runs, last_offset, key=_first)]

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
        """Add a batch. It must not overlap with another."""
        insort(self.batches, batch, key=_first)

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before the offset."""
        at = bisect_right(self.batches, offset, key=_first)
        return self.batches[at - 1] if at else None

    def higher(self, offset: int) -> InFlightBatch | None:
        """Return the first batch that begins after the offset."""
        at = bisect_right(self.batches, offset, key=_first)
        return self.batches[at] if at < len(self.batches) else None

    def beginning_in(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches that begin in the range."""
        return self.batches[bisect_left(self.batches, first_offset, key=_first) : bisect_right(self.batches, last_offset, key=_first)]

    def touching(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches that begin in the range, and the one before them: it may reach into the range."""
        floor = self.floor(first_offset)
        return self.beginning_in(first_offset if floor is None else floor.first_offset, last_offset)

    def remove_before(self, offset: int) -> None:
        """Remove all batches that begin before the offset."""
        del self.batches[: bisect_left(self.batches, offset, key=_first)]

    def clear(self) -> None:
        """Remove all batches."""
        self.batches.clear()

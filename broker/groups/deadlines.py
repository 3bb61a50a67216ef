"""When the members of a consumer group have to be heard of again.

Rules that hold here:

* A deadline names a member and never acts by itself: whoever is told of it looks whether the member is still there, and for a rebalance
  whether it is still in the epoch that it was to leave. So nothing need be taken back when a write fails.
* `next_ms` is never later than the next deadline. Moving a deadline back, which each heartbeat does, leaves it as it is.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class DeadlineKind(IntEnum):
    """What a member is waited for to do."""

    SESSION = 0
    """Heartbeat."""
    REBALANCE = 1
    """Give partitions back and leave its epoch."""
    JOIN = 2
    """Join again, in the classic protocol."""
    SYNC = 3
    """Come for its assignment, in the classic protocol."""


class Due(NamedTuple):
    """A deadline that has come. `epoch` is the member epoch that it was set for, where that matters."""

    deadline_ms: int
    kind: DeadlineKind
    member_id: str
    epoch: int


class Deadlines:
    """The deadlines of one group; times are monotonic milliseconds."""

    def __init__(self) -> None:
        self.next_ms: int | None = None
        self._due: dict[tuple[DeadlineKind, str], Due] = {}

    def set(self, kind: DeadlineKind, member_id: str, deadline_ms: int, epoch: int = -1) -> None:
        """One of a kind for a member: the newest counts."""
        self._due[kind, member_id] = Due(deadline_ms, kind, member_id, epoch)
        if self.next_ms is None or deadline_ms < self.next_ms:
            self.next_ms = deadline_ms

    def set_if_absent(self, kind: DeadlineKind, member_id: str, deadline_ms: int) -> None:
        """A deadline that runs already is not moved."""
        if (kind, member_id) not in self._due:
            self.set(kind, member_id, deadline_ms)

    def get(self, kind: DeadlineKind, member_id: str) -> int | None:
        due = self._due.get((kind, member_id))
        return None if due is None else due.deadline_ms

    def cancel(self, kind: DeadlineKind, member_id: str) -> None:
        self._due.pop((kind, member_id), None)

    def take_due(self, now_ms: int) -> list[Due]:
        """Those that have come, in their order; they are set no longer."""
        due = sorted(one for one in self._due.values() if one.deadline_ms <= now_ms)
        for one in due:
            del self._due[one.kind, one.member_id]
        self.next_ms = min((one.deadline_ms for one in self._due.values()), default=None)
        return due

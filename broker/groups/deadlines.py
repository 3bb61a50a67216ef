"""The deadlines of a group and of its members.

Invariants:

* A deadline names a member and does nothing by itself. When it has passed, the caller checks that the member still exists and, for a
  rebalance, that the member is still in the epoch that it had to leave. After a failed write, the group sets the deadlines of its members
  again.
* `next_ms` is never later than the earliest deadline. It may be earlier: extending a deadline, as each heartbeat does, does not change
  `next_ms`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class DeadlineKind(IntEnum):
    """The kinds of deadlines. Each is a time by which a member must do something, except INITIAL_REBALANCE, which belongs to the group."""

    SESSION = 0
    """The member must send a heartbeat before this deadline; otherwise it is removed."""
    REBALANCE = 1
    """The member must confirm the revocation of its partitions, and so leave its member epoch; otherwise it is removed."""
    JOIN = 2
    """The member, which uses the classic protocol, must send JoinGroup after REBALANCE_IN_PROGRESS; otherwise it is removed."""
    SYNC = 3
    """The member, which uses the classic protocol, must send SyncGroup after its JoinGroup; otherwise it is removed."""
    INITIAL_REBALANCE = 4
    """A new streams group's initial rebalance delay ends, and its first assignment is computed. The deadline's member id is empty."""


class GroupDeadline(NamedTuple):
    """A deadline of a group or a member, in monotonic ms. For kind REBALANCE, `epoch` is the member epoch that the member has to leave
    until then; otherwise it is -1."""

    deadline_ms: int
    kind: DeadlineKind
    member_id: str
    epoch: int


class Deadlines:
    """The deadlines of one group and its members, at most one of each kind for a member; times are monotonic ms."""

    def __init__(self) -> None:
        self.next_ms: int | None = None
        self._deadlines: dict[tuple[DeadlineKind, str], GroupDeadline] = {}

    def set(self, kind: DeadlineKind, member_id: str, deadline_ms: int, epoch: int = -1) -> None:
        """Set a member's deadline of this kind; it replaces an earlier one of the same kind. For kind REBALANCE, `epoch` is the member
        epoch that the member has to leave."""
        self._deadlines[kind, member_id] = GroupDeadline(deadline_ms, kind, member_id, epoch)
        if self.next_ms is None or deadline_ms < self.next_ms:
            self.next_ms = deadline_ms

    def set_if_absent(self, kind: DeadlineKind, member_id: str, deadline_ms: int) -> None:
        """Set a member's deadline of this kind, unless the member has one of this kind."""
        if (kind, member_id) not in self._deadlines:
            self.set(kind, member_id, deadline_ms)

    def get(self, kind: DeadlineKind, member_id: str) -> int | None:
        deadline = self._deadlines.get((kind, member_id))
        return None if deadline is None else deadline.deadline_ms

    def cancel(self, kind: DeadlineKind, member_id: str) -> None:
        self._deadlines.pop((kind, member_id), None)

    def take_due(self, now_ms: int) -> list[GroupDeadline]:
        """Remove and return the deadlines that have passed by `now_ms`, earliest first."""
        due = sorted(one for one in self._deadlines.values() if one.deadline_ms <= now_ms)
        for one in due:
            del self._deadlines[one.kind, one.member_id]
        self.next_ms = min((one.deadline_ms for one in self._deadlines.values()), default=None)
        return due

"""Share sessions: which partitions each member of a share group fetches (Kafka's ShareSessionCache, ShareSession, ShareSessionContext). No
I/O.

Invariants:
* A member has at most one session. A request with epoch 0 begins it and ends an older one. The following requests have the epochs 1, 2, …
  (after 2147483647 again 1), and a request with epoch -1 ends the session.
* If the maximum number of sessions exists, a new one is rejected. No session is evicted: a session ends with its member or its connection.
* All sessions together use at most `limits.SHARE_SESSION_BYTES_MAX` bytes, by estimate. An update that would exceed this changes nothing. A
  new session that would exceed it is not created, but the member's older session has been ended by then.
* A response omits a partition of the session if it has no records and no error, is not new in the session, and had no error in the last
  response.
* A partition that returned records moves to the end of the session's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_INT32_MAX: Final = 2**31 - 1


def _nothing() -> None:
    return None


class TopicPartition(NamedTuple):
    """A topic partition, identified by the topic's id and the partition number."""

    topic_id: bytes
    partition: int


@dataclass(slots=True)
class CachedSharePartition:
    """A partition in a share session. `topic` is the topic's name when the partition was added, None if the topic id was unknown. If
    `must_be_sent` is True, the next response includes the partition even if it has neither records nor an error."""

    topic: str | None
    must_be_sent: bool


@dataclass(slots=True, eq=False)
class ShareSession:
    """A share session: the partitions that a member of a share group fetches, in the order in which they are read."""

    group_id: str
    member_id: str
    epoch: int
    partitions: dict[TopicPartition, CachedSharePartition] = field(default_factory=dict)
    on_end: Callable[[], object] = _nothing
    """A function that is called when the session ends."""

    @property
    def weight_bytes(self) -> int:
        """The estimated memory of the share session, in bytes."""
        named = limits.SHARE_SESSION_BYTES + len(self.group_id.encode())
        return named + limits.SHARE_SESSION_PARTITION_BYTES * len(self.partitions)

    def maybe_update_response_data(self, key: TopicPartition, *, has_records: bool, has_error: bool) -> bool:
        """Return whether the response must include the partition's result. Call it once for each partition of a response, because it also
        moves a partition with records to the end of the session's order."""
        cached = self.partitions.get(key)
        if cached is None:
            return False
        sent = has_records or has_error or cached.must_be_sent
        cached.must_be_sent = has_error  # the next response then includes the partition also without an error: the error has ended
        if has_records:
            self.partitions[key] = self.partitions.pop(key)
        return sent

    def next_epoch(self) -> None:
        """Advance the session's epoch after a request that used the session: by 1, and from 2147483647 to 1."""
        self.epoch = 1 if self.epoch == _INT32_MAX else self.epoch + 1


class ShareSessions:
    """All share sessions of the broker, at most `max_sessions`. `weight_bytes` is the estimated memory of all of them, in bytes."""

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions
        self.weight_bytes = 0
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._members: dict[str, int] = {}
        """The number of share sessions by group id."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        """Return the share session of this member, None if the member has none."""
        return self._sessions.get((group_id, member_id))

    def has_members(self, group_id: str) -> bool:
        """Return whether any member of the group has a share session."""
        return group_id in self._members

    def begin(self, group_id: str, member_id: str, partitions: Sequence[tuple[TopicPartition, str | None]]) -> ShareSession:
        """End the member's share session, if any, and create a new one with these partitions and the epoch 1. Each partition comes with its
        topic's name, None if the topic id is unknown.

        Raises Rejected(SHARE_SESSION_LIMIT_REACHED) if there would be too many sessions, or if they would need too much memory.
        """
        self.remove(group_id, member_id)
        if len(self._sessions) >= self._max_sessions:
            raise Rejected(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, epoch=1)
        session.partitions = {key: CachedSharePartition(topic, must_be_sent=False) for key, topic in partitions}
        self._weigh(session.weight_bytes)
        self._sessions[group_id, member_id] = session
        self._members[group_id] = self._members.get(group_id, 0) + 1
        return session

    def update(
        self, session: ShareSession, added: Iterable[tuple[TopicPartition, str | None]], forgotten: Iterable[TopicPartition]
    ) -> None:
        """Add the partitions `added` (each with its topic's name, None if unknown) to a share session, and remove the partitions
        `forgotten`, as a ShareFetch request lists them.

        Raises Rejected(SHARE_SESSION_LIMIT_REACHED) if all sessions together would need too much memory; the session is then unchanged.
        """
        partitions, before = session.partitions, session.weight_bytes
        new = {key: CachedSharePartition(topic, must_be_sent=True) for key, topic in added if key not in partitions}
        self._weigh(limits.SHARE_SESSION_PARTITION_BYTES * len(new))
        partitions.update(new)
        for key in forgotten:
            partitions.pop(key, None)
        self.weight_bytes += session.weight_bytes - before - limits.SHARE_SESSION_PARTITION_BYTES * len(new)

    def _weigh(self, more_bytes: int) -> None:
        if self.weight_bytes + more_bytes > limits.SHARE_SESSION_BYTES_MAX:
            raise Rejected(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self.weight_bytes += more_bytes

    def check(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """Return the member's share session if the request's `epoch` is the session's next one, or -1, which ends a session.

        Raises Rejected: SHARE_SESSION_NOT_FOUND if the member has no session, INVALID_SHARE_SESSION_EPOCH for any other epoch.
        """
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise Rejected(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch not in {FINAL_EPOCH, session.epoch}:
            raise Rejected(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def remove(self, group_id: str, member_id: str) -> ShareSession | None:
        """End the member's share session and return it; return None if the member has none."""
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            self.weight_bytes -= session.weight_bytes
            self._members[group_id] -= 1
            if not self._members[group_id]:
                del self._members[group_id]
            on_end, session.on_end = session.on_end, _nothing  # otherwise the function and the session could keep each other
            on_end()
        return session

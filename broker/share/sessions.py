"""Share sessions: which partitions each member fetches (KAFKA ShareSessionCache, ShareSession, ShareSessionContext). No I/O.

Invariants:
* A member has at most one session. A request with epoch 0 begins it in place of an older one, the following requests have the epochs 1, 2,
  … (after 2147483647 again 1), and a request with epoch -1 ends it.
* A full cache accepts no further session. None is evicted: a session ends with its member or its connection.
* All sessions together use at most `limits.SHARE_SESSION_BYTES_MAX`, by estimate. An update that would exceed this changes nothing. A new
  session that would exceed it is not created, but the member's older session has been ended.
* Within a session, a response omits a partition that has no records and no error, is not new in the session, and had no error in the last
  response.
* A partition that returned records moves to the end of the session's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_INT32_MAX: Final = 2**31 - 1


class TopicPartition(NamedTuple):
    """A partition of a topic, by the topic's id."""

    topic_id: bytes
    partition: int


@dataclass(slots=True)
class CachedSharePartition:
    """A partition of a share session. `topic` is the topic's name when it was added, None if the topic id was unknown. `must_be_sent` is
    whether the next response includes the partition even if it has neither records nor an error."""

    topic: str | None
    must_be_sent: bool


@dataclass(slots=True, eq=False)
class ShareSession:
    """The partitions that a member fetches, in the order in which they are read."""

    group_id: str
    member_id: str
    epoch: int
    partitions: dict[TopicPartition, CachedSharePartition] = field(default_factory=dict)

    @property
    def weight_bytes(self) -> int:
        """The estimated memory of the share session, in bytes."""
        named = limits.SHARE_SESSION_BYTES + len(self.group_id.encode())
        return named + limits.SHARE_SESSION_PARTITION_BYTES * len(self.partitions)

    def maybe_update_response_data(self, key: TopicPartition, *, has_records: bool, has_error: bool) -> bool:
        """Return whether the response must include the partition's result; to be called once for each partition of a response.

        A partition with records moves to the end of the session's order.
        """
        cached = self.partitions.get(key)
        if cached is None:
            return False
        sent = has_records or has_error or cached.must_be_sent
        cached.must_be_sent = has_error  # the next response then includes the partition also without an error: the error has ended
        if has_records:
            self.partitions[key] = self.partitions.pop(key)
        return sent

    def next_epoch(self) -> None:
        """Advance the session epoch, because a request has used the session."""
        self.epoch = 1 if self.epoch == _INT32_MAX else self.epoch + 1


class ShareSessions:
    """All share sessions of the broker: at most `max_sessions`. `weight_bytes` is their estimated memory."""

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
        """Return the member's share session, None if it has none."""
        return self._sessions.get((group_id, member_id))

    def has_members(self, group_id: str) -> bool:
        """Return whether a member of the group has a session."""
        return group_id in self._members

    def begin(self, group_id: str, member_id: str, partitions: Sequence[tuple[TopicPartition, str | None]]) -> ShareSession:
        """Create the member's session, with epoch 1, after ending an older one.

        Raises Rejected(SHARE_SESSION_LIMIT_REACHED) if there would be too many sessions, or their memory too large.
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
        """Add and remove partitions of a session, as a request lists them.

        Raises Rejected(SHARE_SESSION_LIMIT_REACHED) if the memory of all sessions would be too large with the added partitions.
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
        """Return the member's session. `epoch` is the request's; -1 matches any session epoch.

        Raises Rejected(SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH).
        """
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise Rejected(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch not in {FINAL_EPOCH, session.epoch}:
            raise Rejected(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def remove(self, group_id: str, member_id: str) -> ShareSession | None:
        """End the member's share session. Return the session, None if there was none."""
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            self.weight_bytes -= session.weight_bytes
            self._members[group_id] -= 1
            if not self._members[group_id]:
                del self._members[group_id]
        return session

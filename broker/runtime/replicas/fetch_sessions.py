"""Incremental fetch sessions (KIP-227; Kafka: FetchSession, FetchSessionCache): a consumer names its partitions once, then only changes.

Rules:
* a session's next request must carry the epoch that follows the last one (2147483647 wraps to 1), else nothing of the session changes;
* an incremental response leaves out partitions of which nothing changed: no records, no error, same high watermark and log start offset;
* a partition that gave records goes to the end of the order, so that none starves behind a bigger one;
* a full cache takes a new session only in place of one unused for two minutes, or of the smallest that was used when it was older than
  that, if it is smaller than the new one (FetchSessionCacheShard); a follower's takes the place of any consumer's. Else the client gets
  session id 0 and sends whole requests. Of Kafka's eight parts of the cache there is one, so that none is full while others have room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

_INT32_MAX = 2**31 - 1

TopicKey = str | bytes
"""How the client names a topic: by name, or from version 13 by id."""


@dataclass(slots=True)
class FetchTarget:
    """One partition that a client fetches: what it asks, and what it was last told."""

    topic: TopicKey
    asked: FetchPartition
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    @property
    def key(self) -> tuple[TopicKey, int]:
        """What identifies it in a session."""
        return self.topic, self.asked.partition


@dataclass(slots=True)
class FetchSession:
    """One client's partitions, in the order in which they are read."""

    session_id: int
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    privileged: bool = False
    """A follower's: no consumer's takes its place while it is young."""
    epoch: int = 1
    seasoned: bool = False
    """Used when it was older than `FETCH_SESSION_IDLE_MS`: a bigger one may take its place."""
    targets: dict[tuple[TopicKey, int], FetchTarget] = field(default_factory=dict)

    @property
    def worth(self) -> tuple[bool, int, int]:
        """The least goes first."""
        return self.privileged, len(self.targets), self.session_id


class FetchContext:
    """One request's view: what to read, and (`finish`) what of it to send."""

    def __init__(
        self,
        sessions: FetchSessions,
        targets: Sequence[FetchTarget],
        session: FetchSession | None,
        *,
        wants_session: bool,
        by_id: bool,
        privileged: bool,
    ) -> None:
        self.targets = targets
        self._sessions = sessions
        self._session = session
        self._epoch = session.epoch if session is not None else 0
        self._wants_session = wants_session
        self._by_id = by_id
        self._privileged = privileged

    @property
    def incremental(self) -> bool:
        """True when unchanged partitions are left out of the response."""
        return self._session is not None

    def finish(
        self, results: Sequence[tuple[FetchTarget, PartitionData]], now_ms: int
    ) -> tuple[int, Iterable[tuple[FetchTarget, PartitionData]]]:
        """The session id to answer and the partitions to send. Raises Rejected when another request used the session meanwhile."""
        session = self._session
        if session is None:
            for target, data in results:
                _changed(target, data)
            made = self._sessions.create(self.targets, self._by_id, now_ms, privileged=self._privileged) if self._wants_session else None
            return (made.session_id if made is not None else NO_SESSION), results
        if session.epoch != self._epoch:
            raise Rejected(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        send = []
        for target, data in results:
            if _changed(target, data):
                send.append((target, data))
                if data.records and session.targets.pop(target.key, None) is not None:
                    session.targets[target.key] = target
        return session.session_id, send


def _changed(target: FetchTarget, data: PartitionData) -> bool:
    """Whether the partition is to be sent; remembers what the client is told."""
    special = data.error_code != ErrorCode.NONE or data.diverging_epoch.epoch >= 0
    changed = bool(data.records) or special or data.preferred_read_replica >= 0
    changed = changed or data.high_watermark != target.told_high_watermark or data.log_start_offset != target.told_log_start_offset
    # The next response must show the partition again, whatever it holds: of a divergence a follower takes nothing else (KAFKA-13141).
    target.told_high_watermark = -1 if special else data.high_watermark
    target.told_log_start_offset = data.log_start_offset
    return changed


class FetchSessions:
    """The cache of sessions. `new_id` gives a random positive int32."""

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """Partitions of all sessions together."""
        return self._partitions

    def begin(
        self,
        session_id: int,
        epoch: int,
        targets: Sequence[FetchTarget],
        forgotten: Iterable[tuple[TopicKey, int]],
        *,
        by_id: bool,
        now_ms: int,
        privileged: bool = False,
    ) -> FetchContext:
        """What the request, `privileged` if it is a follower's, is about; raises Rejected with the top-level error of the response."""
        if epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            self.remove(session_id)
            return FetchContext(self, targets, None, wants_session=epoch == INITIAL_EPOCH, by_id=by_id, privileged=privileged)
        session = self._sessions.get(session_id)
        if session is None:
            raise Rejected(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise Rejected(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != by_id:
            raise Rejected(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._update(session, targets, forgotten)
        if not session.targets:
            self.remove(session_id)
            return FetchContext(self, targets, None, wants_session=False, by_id=by_id, privileged=privileged)
        session.epoch = 1 if epoch == _INT32_MAX else epoch + 1
        session.last_used_ms = now_ms
        session.seasoned = now_ms - session.created_ms > limits.FETCH_SESSION_IDLE_MS
        self._sessions[session_id] = self._sessions.pop(session_id)
        return FetchContext(self, list(session.targets.values()), session, wants_session=False, by_id=by_id, privileged=privileged)

    def create(self, targets: Sequence[FetchTarget], by_id: bool, now_ms: int, *, privileged: bool = False) -> FetchSession | None:
        """A new session over `targets`, or None when there is no room."""
        size = len(targets)
        if not size or not self._make_room(size, now_ms, privileged) or self._partitions + size > limits.FETCH_SESSION_PARTITIONS:
            return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(session_id, by_id, now_ms, now_ms, privileged, targets={target.key: target for target in targets})
        self._sessions[session_id] = session
        self._partitions += len(session.targets)
        return session

    def remove(self, session_id: int) -> None:
        """Close a session, if there is one of that id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.targets)

    def untold(self, session_id: int) -> bool:
        """The newest answer of a session is not sent, so that its next one has to tell all. Whether there is still a session: one that this
        answer would have begun is closed."""
        session = self._sessions.get(session_id)
        if session is None or session.epoch == 1:
            self.remove(session_id)
            return False
        for target in session.targets.values():
            target.told_high_watermark = target.told_log_start_offset = -1
        return True

    def _update(self, session: FetchSession, targets: Sequence[FetchTarget], forgotten: Iterable[tuple[TopicKey, int]]) -> None:
        before = len(session.targets)
        if self._partitions + len(targets) > limits.FETCH_SESSION_PARTITIONS:
            self.remove(session.session_id)
            raise Rejected(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "too many partitions in fetch sessions")
        for target in targets:
            known = session.targets.setdefault(target.key, target)
            known.asked = target.asked
        for key in forgotten:
            session.targets.pop(key, None)
        self._partitions += len(session.targets) - before

    def _make_room(self, size: int, now_ms: int, privileged: bool) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        least_recent = next(iter(self._sessions.values()))
        if now_ms - least_recent.last_used_ms > limits.FETCH_SESSION_IDLE_MS:
            self.remove(least_recent.session_id)
            return True
        may_go = [session for session in self._sessions.values() if session.seasoned or (privileged and not session.privileged)]
        least = min(may_go, key=lambda session: session.worth, default=None)
        if least is None or least.worth[:2] >= (privileged, size):
            return False
        self.remove(least.session_id)
        return True

"""Incremental fetch sessions (KIP-227; Kafka: FetchSession, FetchSessionCache): a client names its partitions once, then only changes.

Rules:
* A session's next request must carry the epoch that follows the last one (2147483647 wraps to 1), else nothing of the session changes.
* An incremental response leaves out partitions of which nothing changed: no records, no error, same high watermark and log start offset.
* A partition that gave records goes to the end of the order, so that none starves behind a bigger one.
* A full cache takes a new session only in place of one unused for two minutes, or of the smallest that was used when it was older than
  that, if it is smaller than the new one (FetchSessionCacheShard); a follower's takes the place of any consumer's. Else the client gets
  session id 0 and sends whole requests. Of Kafka's eight parts of the cache there is one, so that none is full while others have room.

A request costs what has changed. Kafka reads every partition of the session for each request; here only those in `FetchSession.dirty`:
* A partition is dirty from the moment it is named in a request, or something changes that a reader could see: an append, a high watermark,
  a log start, a leader, an in-sync set, an error, the partition's end. A partition whose answer is an error is always dirty.
* It is clean once the client has been told all that there is (`FetchContext.finish`). A clean partition holds its target as a watcher,
  which the first change calls and takes away: a busy partition pays once for each time it was idle.
* A request on other terms than the one before it (other rights, another reader) makes all of them dirty.
* tests/property/test_dirty_sessions.py: the answers are those of a session that reads everything.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.progress import Progress, Pulse
from ottla.broker.runtime.replicas.partition import Partition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

_INT32_MAX = 2**31 - 1

TopicKey = str | bytes
"""How the client names a topic: by name, or from version 13 by id."""


class Waiter(Protocol):
    """A request that waits with its session: `ottla.broker.runtime.replicas.fetch_waits.ParkedFetch`."""

    def join(self, partition: Partition) -> None: ...

    def appended(self, size: int) -> None: ...

    def give_up(self) -> None: ...


@dataclass(slots=True, eq=False)
class FetchTarget:
    """One partition that a client fetches: the fetch position that the client asked for, and the offsets that the last answer gave."""

    topic: TopicKey
    asked: FetchPartition
    told_high_watermark: int = -1
    told_log_start_offset: int = -1
    order: int = 0
    """Its place in its session: targets are read by rising order."""
    session: FetchSession | None = None
    watched: Partition | None = None
    """The partition that it watches: nothing has changed there since it was read."""
    quiet: bool = False
    """Whether it was read at the end of what the client may see, so that only a change can bring an answer."""
    resting: Progress | None = None
    """The follower's progress in this partition, while the session's pulse counts for it."""

    @property
    def key(self) -> tuple[TopicKey, int]:
        """What identifies it in a session."""
        return self.topic, self.asked.partition

    def watch(self, partition: Partition, *, quiet: bool) -> None:
        """The partition has just been read: hear of the first change from now on."""
        self.quiet = quiet
        if self.watched is None:
            assert self.session is not None, "a target without a session has nobody to tell"
            self.watched = partition
            (partition.end_watchers if self.session.follower >= 0 else partition.watchers)[self] = self.changed

    def changed(self, size: int) -> None:
        """The watched partition has changed; `size` as in `partition.Woken`."""
        partition, session = self.watched, self.session
        assert partition is not None, "nothing is watched"
        assert session is not None, "nobody is to be told"
        self.stir()
        session.dirty.add(self)
        if session.waiter is not None:
            session.waiter.join(partition)
            session.waiter.appended(size)

    def stir(self) -> None:
        """Watch no longer, and let the session's pulse count no longer."""
        if self.watched is not None:
            self.watched.watchers.pop(self, None)
            self.watched.end_watchers.pop(self, None)
            self.watched = None
        if self.resting is not None:
            assert self.session is not None, "it rests by its session's pulse"
            self.resting.settle(self.session.pulse)
            self.resting = None


@dataclass(slots=True)
class FetchSession:
    """One client's partitions, in the order in which they are read. A request without a session has one of its own until it is answered."""

    session_id: int
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    follower: int = -1
    """The node id of the broker that follows, -1 for a consumer."""
    privileged: bool = False
    """Begun by a follower: no consumer's takes its place while it is young."""
    epoch: int = 1
    seasoned: bool = False
    """Used when it was older than `FETCH_SESSION_IDLE_MS`: a bigger one may take its place."""
    targets: dict[tuple[TopicKey, int], FetchTarget] = field(default_factory=dict)
    dirty: set[FetchTarget] = field(default_factory=set)
    """The targets that the next request has to read."""
    told: list[FetchTarget] = field(default_factory=list)
    """The targets in the newest answer."""
    terms: Hashable = None
    """Everything beside `targets` that the last request's answers depended on."""
    waiter: Waiter | None = None
    """The request of this session that waits."""
    pulse: Pulse = field(default_factory=Pulse)
    _orders: count[int] = field(default_factory=count)

    @property
    def worth(self) -> tuple[bool, int, int]:
        """The least goes first."""
        return self.privileged, len(self.targets), self.session_id

    def add(self, target: FetchTarget) -> None:
        """The client fetches it from now on, after all others."""
        target.session, target.order = self, next(self._orders)
        self.targets[target.key] = target
        self.dirty.add(target)

    def move_to_end(self, target: FetchTarget) -> None:
        """Read it after all others, if the client still fetches it."""
        if self.targets.pop(target.key, None) is not None:
            self.targets[target.key] = target
            target.order = next(self._orders)

    def touch(self, target: FetchTarget) -> None:
        """Read it in the next request."""
        target.stir()
        self.dirty.add(target)

    def forget(self, key: tuple[TopicKey, int]) -> None:
        """The client fetches it no longer."""
        target = self.targets.pop(key, None)
        if target is not None:
            target.stir()
            self.dirty.discard(target)

    def pending(self) -> list[FetchTarget]:
        """What is to be read, in its order."""
        return sorted(self.dirty, key=_order) if len(self.dirty) > 1 else list(self.dirty)

    def told_all(self, target: FetchTarget) -> None:
        """The client has been told what was read of the target. Unless that has changed since, it need not be read again."""
        if target.quiet and target.watched is not None and self.targets.get(target.key) is target:
            self.dirty.discard(target)
            if self.follower >= 0 and target.resting is None:
                target.resting = target.watched.replica.others.followers[self.follower]
                target.resting.rest(self.pulse)

    def close(self) -> None:
        """Nothing is fetched any more; a request that waits answers with what there is."""
        if self.waiter is not None:
            self.waiter.give_up()
        for target in self.targets.values():
            target.stir()


def _order(target: FetchTarget) -> int:
    return target.order


class FetchContext:
    """One request's view: what to read, and (`finish`) what of it to send."""

    def __init__(self, sessions: FetchSessions, session: FetchSession, *, whole: bool, wants_session: bool = False) -> None:
        self.session = session
        self._sessions = sessions
        self._epoch = session.epoch
        self._whole = whole
        self._wants_session = wants_session
        self._finished = False

    @property
    def targets(self) -> Sequence[FetchTarget]:
        """What there is to read now, in its order: everything in a request without a session, else what is dirty."""
        return list(self.session.targets.values()) if self._whole else self.session.pending()

    @property
    def is_empty(self) -> bool:
        """Whether the client fetches nothing."""
        return not self.session.targets

    @property
    def incremental(self) -> bool:
        """True when unchanged partitions are left out of the response."""
        return not self._whole

    def finish(
        self, results: Sequence[tuple[FetchTarget, PartitionData]], now_ms: int
    ) -> tuple[int, Iterable[tuple[FetchTarget, PartitionData]]]:
        """The session id to answer and the partitions to send. Raises Rejected when another request used the session meanwhile."""
        session, self._finished = self.session, True
        if not self._whole and session.epoch != self._epoch:
            raise Rejected(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if self._whole and not (self._wants_session and self._sessions.keep(session, now_ms)):
            session.close()
            return NO_SESSION, results
        send = [found for found in results if _changed(*found) or self._whole]
        for target, _ in results:
            session.told_all(target)
        if not self._whole:
            for target, data in send:
                if data.records:
                    session.move_to_end(target)
        session.told = [target for target, _ in send]
        if not self._sessions.has(session):
            session.close()
        return session.session_id, send

    def abandon(self) -> None:
        """The request is not answered, unless `finish` was called."""
        if self._whole and not self._finished:
            self.session.close()


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

    def __iter__(self) -> Iterator[FetchSession]:
        """All sessions, the least recently used first."""
        return iter(list(self._sessions.values()))

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
        follower: int = -1,
        terms: Hashable = None,
    ) -> FetchContext:
        """What the request is about; raises Rejected with the top-level error of the response.

        `follower` is the node id of the broker that follows, -1 for a consumer; `terms` everything else that the answers depend on: with
        other terms than the session's last request, every partition is read.
        """
        if epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            self.remove(session_id)
            return self._whole(targets, by_id, now_ms, follower, terms, wants_session=epoch == INITIAL_EPOCH)
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
            return self._whole(targets, by_id, now_ms, follower, terms, wants_session=False)
        session.epoch = 1 if epoch == _INT32_MAX else epoch + 1
        session.last_used_ms = now_ms
        session.seasoned = now_ms - session.created_ms > limits.FETCH_SESSION_IDLE_MS
        self._sessions[session_id] = self._sessions.pop(session_id)
        if session.terms != terms or session.follower != follower:
            for target in session.targets.values():
                session.touch(target)
            session.terms, session.follower = terms, follower
        if session.waiter is not None:
            session.waiter.give_up()
        session.pulse.ms = now_ms
        return FetchContext(self, session, whole=False)

    def _whole(
        self, targets: Sequence[FetchTarget], by_id: bool, now_ms: int, follower: int, terms: Hashable, *, wants_session: bool
    ) -> FetchContext:
        session = FetchSession(NO_SESSION, by_id, now_ms, now_ms, follower, terms=terms, pulse=Pulse(now_ms))
        for target in targets:
            session.add(target)
        return FetchContext(self, session, whole=True, wants_session=wants_session)

    def has(self, session: FetchSession) -> bool:
        """Whether the cache holds it still."""
        return self._sessions.get(session.session_id) is session

    def keep(self, session: FetchSession, now_ms: int) -> bool:
        """Take a request's partitions as a new session; False when there is no room."""
        size = len(session.targets)
        session.privileged = session.follower >= 0
        if not size or not self._make_room(size, now_ms, session.privileged) or self._partitions + size > limits.FETCH_SESSION_PARTITIONS:
            return False
        session.session_id = self._new_id()
        while session.session_id in self._sessions:
            session.session_id = self._new_id()
        session.created_ms = session.last_used_ms = now_ms
        self._sessions[session.session_id] = session
        self._partitions += size
        return True

    def remove(self, session_id: int) -> None:
        """Close a session, if there is one of that id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.targets)
            session.close()

    def untold(self, session_id: int) -> bool:
        """The newest answer of a session is not sent, so that its next one has to tell that. Whether there is still a session: one that
        this answer would have begun is closed."""
        session = self._sessions.get(session_id)
        if session is None or session.epoch == 1:
            self.remove(session_id)
            return False
        for target in session.told:
            target.told_high_watermark = target.told_log_start_offset = -1
            if target.key in session.targets:
                session.touch(target)
        return True

    def _update(self, session: FetchSession, targets: Sequence[FetchTarget], forgotten: Iterable[tuple[TopicKey, int]]) -> None:
        before = len(session.targets)
        if self._partitions + len(targets) > limits.FETCH_SESSION_PARTITIONS:
            self.remove(session.session_id)
            raise Rejected(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "too many partitions in fetch sessions")
        for target in targets:
            known = session.targets.get(target.key)
            if known is None:
                session.add(target)
            else:
                known.asked = target.asked
                session.touch(known)
        for key in forgotten:
            session.forget(key)
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

"""The broker side of incremental fetch sessions (KIP-227; Kafka's FetchSession, FetchSessionCache).

Invariants:
* The next request of a session must carry the next session epoch (2147483647 wraps to 1). Otherwise it fails and the session is unchanged.
* An incremental response omits unchanged partitions: no records, no error, and the same high watermark and log start offset.
* A partition that returned records moves to the end of the order, so that a larger partition starves no other.
* A full cache accepts a new session only if it can evict another (Kafka's FetchSessionCacheShard). It evicts the session that was used
  least recently, if its last use is two minutes ago. Otherwise it evicts the smallest session that was still in use at an age of more than
  two minutes, if this session is smaller than the new one. A follower's session may evict any consumer's. If nothing can be evicted, the
  client receives session id 0 and keeps sending full requests.
* Kafka splits the cache into eight shards. This cache has one, so that no shard is full while others have room.

The cost of a request is proportional to the number of changed partitions. Kafka reads every partition of the session for each request. This
implementation reads only those in `FetchSession.dirty`:
* A partition becomes dirty when a request lists it, or when something changes that a reader could observe: an append, the high watermark,
  the log start offset, the leader, the ISR, an error, or the partition's removal. A partition whose last response is an error stays dirty.
* A partition becomes clean when a response has carried its whole current state. A clean partition has its `CachedPartition` as a watcher,
  which the first change calls and removes. Further changes of a partition that is dirty already cost the session nothing.
* If another input of the response (for instance ACLs, isolation level or rack) differs from the previous request, all partitions are dirty.
* The responses equal those of a session that reads every partition; tests/property/test_dirty_sessions.py verifies that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.progress import Progress, SessionFetchTime
from ottla.broker.runtime.replicas.partition import Partition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

_INT32_MAX = 2**31 - 1

TopicKey = str | bytes
"""A topic's name or, in requests from version 13 on, its id."""


class Waiter(Protocol):
    """The interface of a Fetch request that waits in a session, implemented by `fetch_purgatory.PendingFetch`."""

    def join(self, partition: Partition) -> None: ...

    def appended(self, size: int) -> None: ...

    def force_complete(self) -> None: ...


@dataclass(slots=True, eq=False)
class CachedPartition:
    """A partition of a fetch session, or of a Fetch request without a session: the requested position, and the offsets that the last
    response carried (Kafka's CachedPartition).
    """

    topic: TopicKey
    requested: FetchPartition
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    order: int = 0
    """The partition's position in the session. A session's partitions are read in ascending order."""
    session: FetchSession | None = None
    name: str | None = None
    """The name of the topic, once it has been found by the topic id. A session keeps the name when the topic is deleted (Kafka's
    CachedPartition)."""
    watched: Partition | None = None
    """This broker's replica of the partition, while the session watches it for its first change since the last read; None otherwise."""
    quiet: bool = False
    """Whether the last read reached the end of the readable records, so that only a change can produce a new response."""
    idle_progress: Progress | None = None
    """The leader's record of the follower's fetch position. It is set in a follower's session while the partition is clean: each request of
    the session then counts as a fetch at this partition's log end, although the partition is not read (`Progress.follow_session`). None for
    consumers, and while the partition is dirty."""

    @property
    def key(self) -> tuple[TopicKey, int]:
        """The partition's key in the session: topic and partition index."""
        return self.topic, self.requested.partition

    def watch(self, partition: Partition, *, quiet: bool) -> None:
        """Watch `partition`, which has just been read for this request, for its first change. `quiet` is true if the read has reached the
        end of what the client may read, so that only a change can produce a new response.
        """
        self.quiet = quiet
        if self.watched is None:
            assert self.session is not None, "a watched partition belongs to a session"
            self.watched = partition
            (partition.log_end_watchers if self.session.follower >= 0 else partition.watchers)[self] = self.changed

    def changed(self, size: int) -> None:
        """Handle the first change of the watched partition: end the watch, and mark the partition dirty, so that the session's next request
        reads it. `size` is the number of bytes that became readable, 0 if a waiting fetch must read again, or `partition.READ_LATER` if the
        change completes no wait.
        """
        partition, session = self.watched, self.session
        assert partition is not None, "nothing is watched"
        assert session is not None, "a watched partition belongs to a session"
        self.stop_watching()
        session.dirty.add(self)
        if session.waiter is not None:
            session.waiter.join(partition)
            session.waiter.appended(size)

    def stop_watching(self) -> None:
        """Stop watching the partition for changes. If the session is a follower's, its later requests count as fetches of this partition
        only when they read it.
        """
        if self.watched is not None:
            self.watched.watchers.pop(self, None)
            self.watched.log_end_watchers.pop(self, None)
            self.watched = None
        if self.idle_progress is not None:
            assert self.session is not None, "a watched partition belongs to a session"
            self.idle_progress.leave_session(self.session.fetch_time)
            self.idle_progress = None


CachedPartitions = Sequence[CachedPartition]


@dataclass(slots=True)
class FetchSession:
    """A fetch session of a consumer or follower (KIP-227): its partitions in read order. A request outside any session gets a temporary
    session while it waits for data.
    """

    session_id: int
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    follower: int = -1
    """The node id of the follower, or -1 for a consumer."""
    privileged: bool = False
    """Whether a follower created the session. No consumer's session may evict a follower's session while that is in use."""
    epoch: int = 1
    is_new: bool = True
    """Whether no incremental request has used the session yet. The epoch does not show this, because it wraps to 1 (Kafka's
    FetchMetadata.nextEpoch)."""
    evictable_by_larger: bool = False
    """Whether the session was used at an age of more than `FETCH_SESSION_IDLE_MS`. A session with more partitions may then evict it."""
    partitions: dict[tuple[TopicKey, int], CachedPartition] = field(default_factory=dict)
    dirty: set[CachedPartition] = field(default_factory=set)
    """The partitions that have changed since the last response, or that a request has listed since. The next request has to read them."""
    last_sent: list[CachedPartition] = field(default_factory=list)
    """The partitions that the newest response contains."""
    result_inputs: Hashable = None
    """All inputs of the last request that its response depended on, such as the isolation level, except the partitions. If they change,
    every partition has to be read."""
    waiter: Waiter | None = None
    """The Fetch request of this session that waits for data; None if there is none."""
    fetch_time: SessionFetchTime = field(default_factory=SessionFetchTime)
    _orders: count[int] = field(default_factory=count)

    @property
    def eviction_key(self) -> tuple[bool, int, int]:
        """The key by which sessions are ordered for eviction (Kafka's EvictableKey). The session with the lowest key is evicted first."""
        return self.privileged, len(self.partitions), self.session_id

    def add(self, cached: CachedPartition) -> None:
        """Add a partition to the session, at the end of the read order."""
        cached.session, cached.order = self, next(self._orders)
        self.partitions[cached.key] = cached
        self.dirty.add(cached)

    def move_to_end(self, cached: CachedPartition) -> None:
        """Move a partition to the end of the read order, if it is still in the session."""
        if self.partitions.pop(cached.key, None) is not None:
            self.partitions[cached.key] = cached
            cached.order = next(self._orders)

    def mark_dirty(self, cached: CachedPartition) -> None:
        """Mark a partition dirty, so that the session's next request reads it."""
        cached.stop_watching()
        self.dirty.add(cached)

    def forget(self, key: tuple[TopicKey, int]) -> None:
        """Remove the partition with this key from the session, if it is there."""
        cached = self.partitions.pop(key, None)
        if cached is not None:
            cached.stop_watching()
            self.dirty.discard(cached)

    def pending(self) -> list[CachedPartition]:
        """Return the session's dirty partitions, which the next request has to read, in read order."""
        return sorted(self.dirty, key=_order) if len(self.dirty) > 1 else list(self.dirty)

    def mark_clean(self, cached: CachedPartition) -> None:
        """Mark a partition clean after a response carried its state, unless the partition has changed since it was read. Later requests of
        the session do not read a clean partition until it changes.
        """
        if cached.quiet and cached.watched is not None and self.partitions.get(cached.key) is cached:
            self.dirty.discard(cached)
            if self.follower >= 0 and cached.idle_progress is None:
                cached.idle_progress = cached.watched.replica.leadership.followers[self.follower]
                cached.idle_progress.follow_session(self.fetch_time)

    def close(self) -> None:
        """Stop watching the session's partitions for changes. A pending request of the session responds with the data that it has."""
        if self.waiter is not None:
            self.waiter.force_complete()
        for cached in self.partitions.values():
            cached.stop_watching()


def _new_session(by_id: bool, now_ms: int, follower: int, result_inputs: Hashable) -> FetchSession:
    return FetchSession(NO_SESSION, by_id, now_ms, now_ms, follower, result_inputs=result_inputs, fetch_time=SessionFetchTime(now_ms))


def _order(cached: CachedPartition) -> int:
    return cached.order


class IncrementalFetchContext:
    """An incremental Fetch request. `partitions` are the changed (dirty) partitions of the session, which the request has to read. `finish`
    selects the results that the response must include.
    """

    def __init__(self, sessions: FetchSessions, session: FetchSession) -> None:
        self._sessions = sessions
        self._session = session
        self._epoch = session.epoch

    @property
    def session(self) -> FetchSession:
        """The fetch session that this request uses."""
        return self._session

    @property
    def partitions(self) -> CachedPartitions:
        """The dirty partitions of the session, which this request has to read, in read order."""
        return self._session.pending()

    @property
    def is_empty(self) -> bool:
        """Whether the session has no partitions."""
        return not self._session.partitions

    def finish(
        self, results: Sequence[tuple[CachedPartition, PartitionData]], now_ms: int
    ) -> tuple[int, Sequence[tuple[CachedPartition, PartitionData]]]:
        """Return the session id of the response, and those of `results` that the response must include because they have changed.

        Raises Rejected (INVALID_FETCH_SESSION_EPOCH) if another request has used the session in the meantime.
        """
        session = self._session
        if session.epoch != self._epoch:
            raise Rejected(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        send = [found for found in results if _changed(*found)]
        for cached, _ in results:
            session.mark_clean(cached)
        for cached, data in send:
            if data.records:
                session.move_to_end(cached)
        session.last_sent = [cached for cached, _ in send]
        if not self._sessions.has(session):
            session.close()
        return session.session_id, send

    def abandon(self) -> None:
        """Do nothing. A request that ends without a response leaves its session unchanged."""


class FullFetchContext:
    """A full Fetch request, which lists all its partitions. It gets a session only if it asks for one or has to wait for data."""

    def __init__(
        self, sessions: FetchSessions, partitions: CachedPartitions, make: Callable[[], FetchSession], *, wants_session: bool
    ) -> None:
        self._sessions = sessions
        self._partitions = partitions
        self._make = make
        self._wants_session = wants_session
        self._finished = False
        self._own: FetchSession | None = None
        if wants_session:
            _ = self.session

    @property
    def session(self) -> FetchSession:
        """The fetch session of this request; it is made when this property is first used."""
        if self._own is None:
            self._own = self._make()
            for cached in self._partitions:
                self._own.add(cached)
        return self._own

    @property
    def partitions(self) -> CachedPartitions:
        """All partitions of the request, in the request's order."""
        return self._partitions

    @property
    def is_empty(self) -> bool:
        """Whether the request names no partitions."""
        return not self._partitions

    def finish(
        self, results: Sequence[tuple[CachedPartition, PartitionData]], now_ms: int
    ) -> tuple[int, Sequence[tuple[CachedPartition, PartitionData]]]:
        """Return the session id of the response and all `results`. The session id is NO_SESSION if no session is kept."""
        session, self._finished = self._own, True
        if session is None:
            return NO_SESSION, results
        if not (self._wants_session and self._sessions.keep(session, now_ms)):
            session.close()
            return NO_SESSION, results
        for cached, data in results:
            _changed(cached, data)
            session.mark_clean(cached)
        session.last_sent = [cached for cached, _ in results]
        return session.session_id, results

    def abandon(self) -> None:
        """Close the session of a request that ends without a response. After `finish` this does nothing."""
        if self._own is not None and not self._finished:
            self._own.close()


FetchContext = IncrementalFetchContext | FullFetchContext


def _changed(cached: CachedPartition, data: PartitionData) -> bool:
    """Return whether an incremental response must include the partition: it has records, an error, or offsets that the client does not
    know. Also store the offsets in `data` as those that the client receives.
    """
    special = data.error_code != ErrorCode.NONE or data.diverging_epoch.epoch >= 0
    changed = bool(data.records) or special or data.preferred_read_replica >= 0
    changed = changed or data.high_watermark != cached.sent_high_watermark or data.log_start_offset != cached.sent_log_start_offset
    # A follower ignores the offsets of an error or divergence (KAFKA-13141), so the next response must include the partition in any case.
    cached.sent_high_watermark = -1 if special else data.high_watermark
    cached.sent_log_start_offset = data.log_start_offset
    return changed


class FetchSessions:
    """The cache of the broker's fetch sessions, which holds at most `slots` sessions. `new_id` returns a random positive int32 for a new
    session's id.
    """

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        """Iterate over all sessions, the least recently used first."""
        return iter(list(self._sessions.values()))

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return self._partitions

    def begin(
        self,
        session_id: int,
        epoch: int,
        partitions: CachedPartitions,
        forgotten: Iterable[tuple[TopicKey, int]],
        *,
        by_id: bool,
        now_ms: int,
        follower: int = -1,
        result_inputs: Hashable = None,
    ) -> FetchContext:
        """Return the context of a Fetch request (full or incremental), which has the partitions to read. Raises Rejected with the top-level
        error of the response: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.

        `forgotten` are the keys of partitions to remove from the session; `by_id` is true if topics are given by id. `follower` is the node
        id of the follower, or -1 for a consumer. `result_inputs` are all other inputs that the response depends on, such as the isolation
        level. If they differ from those of the session's last request, every partition is read.
        """
        if epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            self.remove(session_id)
            return self._whole(partitions, by_id, now_ms, follower, result_inputs, wants_session=epoch == INITIAL_EPOCH)
        session = self._sessions.get(session_id)
        if session is None:
            raise Rejected(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise Rejected(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != by_id:
            raise Rejected(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._update(session, partitions, forgotten)
        if not session.partitions:
            self.remove(session_id)
            return self._whole(partitions, by_id, now_ms, follower, result_inputs, wants_session=False)
        session.is_new = False
        session.epoch = 1 if epoch == _INT32_MAX else epoch + 1
        session.last_used_ms = now_ms
        session.evictable_by_larger = now_ms - session.created_ms > limits.FETCH_SESSION_IDLE_MS
        self._sessions[session_id] = self._sessions.pop(session_id)
        if session.result_inputs != result_inputs or session.follower != follower:
            for cached in session.partitions.values():
                session.mark_dirty(cached)
            session.result_inputs, session.follower = result_inputs, follower
        if session.waiter is not None:
            session.waiter.force_complete()
        session.fetch_time.ms = now_ms
        return IncrementalFetchContext(self, session)

    def _whole(
        self, partitions: CachedPartitions, by_id: bool, now_ms: int, follower: int, result_inputs: Hashable, *, wants_session: bool
    ) -> FetchContext:
        make = partial(_new_session, by_id, now_ms, follower, result_inputs)
        return FullFetchContext(self, partitions, make, wants_session=wants_session)

    def has(self, session: FetchSession) -> bool:
        """Return whether the cache still holds the session."""
        return self._sessions.get(session.session_id) is session

    def keep(self, session: FetchSession, now_ms: int) -> bool:
        """Add the session of a full request to the cache, under a new session id, and return True. Returns False if the session has no
        partitions or the cache has no room.
        """
        size = len(session.partitions)
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
        """Close and remove the session with this id, if there is one."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)
            session.close()

    def unsent(self, session_id: int) -> bool:
        """Handle a failure to send a session's newest response: the next response must carry its content again.

        Returns whether the session still exists. A session that the unsent response would have created is closed.
        """
        session = self._sessions.get(session_id)
        if session is None or session.is_new:
            self.remove(session_id)
            return False
        for cached in session.last_sent:
            cached.sent_high_watermark = cached.sent_log_start_offset = -1
            if cached.key in session.partitions:
                session.mark_dirty(cached)
        return True

    def _update(self, session: FetchSession, partitions: CachedPartitions, forgotten: Iterable[tuple[TopicKey, int]]) -> None:
        before = len(session.partitions)
        if self._partitions + len(partitions) > limits.FETCH_SESSION_PARTITIONS:
            self.remove(session.session_id)
            raise Rejected(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "too many partitions in fetch sessions")
        for cached in partitions:
            known = session.partitions.get(cached.key)
            if known is None:
                session.add(cached)
            else:
                known.requested = cached.requested
                session.mark_dirty(known)
        for key in forgotten:
            session.forget(key)
        self._partitions += len(session.partitions) - before

    def _make_room(self, size: int, now_ms: int, privileged: bool) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        least_recent = next(iter(self._sessions.values()))
        if now_ms - least_recent.last_used_ms > limits.FETCH_SESSION_IDLE_MS:
            self.remove(least_recent.session_id)
            return True
        may_go = [session for session in self._sessions.values() if session.evictable_by_larger or (privileged and not session.privileged)]
        least = min(may_go, key=lambda session: session.eviction_key, default=None)
        if least is None or least.eviction_key[:2] >= (privileged, size):
            return False
        self.remove(least.session_id)
        return True

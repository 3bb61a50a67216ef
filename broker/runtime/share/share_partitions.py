"""The share partitions of the partitions that this broker leads (Kafka's SharePartitionManager, SharePartitionCache).

Invariants:
* A share partition is loaded by the first fetch that names it, and dropped when this broker no longer leads the partition, when the group
  has no session here, or when the share coordinator fences it. Records that were acquired then are available again at the broker that loads
  it next, because acquisitions are never persisted.
* The response to an acknowledgement waits until the new state is persisted. If the write fails, the records belong to their member again.
* Each share partition has at most one timer, never later than its next expiring lock. It runs on the broker's clock.
* A record that the group gives up is first persisted in the state "archiving", then written to the group's dead letter queue, then
  archived, even if that write failed. No acknowledgement waits for the write or for the archiving.
* Every change that may complete a waiting fetch calls `SharePartitionInUse.wake`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from ottla.broker.core.clock import Clock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import TimerHandle, Timers
from ottla.broker.runtime.coordination.shard import failure_of
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.share.acknowledgement import AcknowledgementBatch, acknowledge
from ottla.broker.share.dead_letters import DeadLetters
from ottla.broker.share.persister import UNINITIALIZED_START_OFFSET, Persister, ReadState, SharePartitionKey, StateBatch
from ottla.broker.share.sessions import ShareSession, ShareSessions
from ottla.broker.share.settings import EARLIEST, LATEST, ShareSettings
from ottla.broker.share.share_partition import SharePartition, StateUpdate
from ottla.broker.storage.log_reader import Search
from ottla.broker.storage.log_values import EARLIEST as EARLIEST_TIMESTAMP
from ottla.broker.storage.log_values import LATEST as LATEST_TIMESTAMP
from ottla.broker.storage.log_values import Isolation, TimestampOffset
from ottla.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

Committed = asyncio.Future[None] | None
"""A future that completes when a state change of a share partition is persisted, and fails with Rejected if it cannot be. None if the
change is persisted already."""

_OF_COORDINATOR: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""Maps an error of the share coordinator to the error that clients get (Kafka's SharePartition.fetchPersisterError). For any other error
clients get UNKNOWN_SERVER_ERROR."""

_FENCING: Final = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""Errors of the share coordinator or of the log after which a share partition is dropped, so that the next fetch loads it again."""


class SharePartitionInUse:
    """A share partition that this broker has loaded or is loading, with the partition whose log is read, the timer of its acquisition
    locks, and the fetches that wait for it.
    """

    __slots__ = ("failure", "key", "loaded", "lock_timeouts", "partition", "state", "timer", "waiting")

    def __init__(self, key: SharePartitionKey, partition: Partition, settings: Callable[[], ShareSettings]) -> None:
        self.key = key
        self.partition = partition
        self.state = SharePartition(settings, partition.leader_epoch)
        self.loaded = False
        self.failure: Rejected | None = None
        """The error because of which the share partition was dropped; None while it is in use."""
        self.lock_timeouts = 0
        """The number of records whose acquisition lock has expired since the share partition was loaded."""
        self.timer: TimerHandle | None = None
        self.waiting: dict[object, Callable[[], object]] = {}

    def wake(self) -> None:
        """Resume the fetches that wait for this share partition, so that they read again."""
        for woken in list(self.waiting.values()):
            woken()


class SharePartitionManager:
    """All share partitions that this broker has loaded, with the share sessions. `settings_of` returns a group's current settings.

    `write_dead_letters` writes dead letters of a group for records of a partition, and raises Rejected if that is impossible.
    """

    def __init__(
        self,
        partitions: Partitions,
        persister: Persister,
        clock: Clock,
        timers: Timers,
        *,
        settings_of: Callable[[str], ShareSettings],
        max_sessions: int,
        write_dead_letters: Callable[[str, Partition, DeadLetters], Awaitable[None]],
        nursery: Nursery,
    ) -> None:
        self.sessions = ShareSessions(max_sessions)
        self.settings_of = settings_of
        self.clock = clock
        self.acknowledged = Counter[int]()
        """The number of records with a persisted acknowledgement, by acknowledgement type, such as accept."""
        self._write_to_queue = write_dead_letters
        self._nursery = nursery
        self._partitions = partitions
        self._persister = persister
        self._timers = timers
        self._in_use: dict[SharePartitionKey, SharePartitionInUse] = {}
        self._groups: dict[str, dict[SharePartitionKey, None]] = {}
        """The keys of the loaded share partitions, by group id. The values of the inner dicts are None: a dict is a set that keeps its
        order."""

    def __len__(self) -> int:
        return len(self._in_use)

    def in_use(self) -> list[SharePartitionInUse]:
        """Return all share partitions that this broker has loaded or is loading."""
        return list(self._in_use.values())

    def find(self, key: SharePartitionKey) -> SharePartitionInUse | None:
        """Return the share partition, which may still be loading; None if this broker has not begun to load it, or has dropped it."""
        return self._in_use.get(key)

    # --- loading -----------------------------------------------------------------------------------------------------------------

    def get(self, key: SharePartitionKey) -> SharePartitionInUse:
        """Return the share partition, which may still be loading. Begin to load it if it is not in use yet. Raises Rejected if this broker
        cannot serve it, for example because it does not lead the partition (NOT_LEADER_OR_FOLLOWER)."""
        found = self._in_use.get(key)
        if found is not None:
            return found
        partition = self._partitions.get(key.topic_id, key.partition)
        partition.replica.check_leads()
        shared = SharePartitionInUse(key, partition, partial(self.settings_of, key.group_id))
        self._in_use[key] = shared
        self._groups.setdefault(key.group_id, {})[key] = None
        try:
            read = self._persister.read(key, shared.state.leader_epoch)
            if isinstance(read, asyncio.Future):
                read.add_done_callback(partial(self._read, shared))
            else:
                self._load(shared, read)
        except Rejected as error:
            raise self._failed(shared, _for_clients(error)) from error
        return shared

    def _read(self, shared: SharePartitionInUse, done: asyncio.Future[ReadState]) -> None:
        if shared.failure is not None:
            return
        try:
            self._load(shared, done.result())
        except Rejected as error:
            self._failed(shared, _for_clients(error))
        except asyncio.CancelledError:
            self._failed(shared, Rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _load(self, shared: SharePartitionInUse, read: ReadState) -> None:
        if read.start_offset == UNINITIALIZED_START_OFFSET:
            self._search(shared, read, self._reset_offset(shared))
        else:
            self._loaded(shared, read, read.start_offset)

    def _loaded(self, shared: SharePartitionInUse, read: ReadState, start: int) -> None:
        shared.state.load(read, start)
        shared.loaded = True
        self._begin_dead_letters(shared)
        shared.wake()

    def _search(
        self,
        shared: SharePartitionInUse,
        read: ReadState,
        search: Search[int],
        searched: asyncio.Future[TimestampOffset | None] | None = None,
    ) -> None:
        """Continue to load a share partition whose start offset is searched in the log. `search` is a generator of the steps, which run on
        a thread; `searched` is the future of the step that has just ended (None at first). Raises Rejected if the share partition cannot be
        loaded.
        """
        if shared.failure is not None:
            return
        try:
            work = next(search) if searched is None else search.send(searched.result)
        except StopIteration as end:
            self._loaded(shared, read, end.value)
        except Rejected as error:
            raise self._failed(shared, error) from error
        else:
            self._partitions.compute(work).add_done_callback(partial(self._searched, shared, read, search))

    def _searched(
        self, shared: SharePartitionInUse, read: ReadState, search: Search[int], searched: asyncio.Future[TimestampOffset | None]
    ) -> None:
        try:
            self._search(shared, read, search, searched)
        except Rejected:
            pass  # the fetches that wait for the share partition get the error
        except asyncio.CancelledError:
            self._failed(shared, Rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _reset_offset(self, shared: SharePartitionInUse) -> Search[int]:
        """Search for the start offset of a share partition without stored state: the offset that share.auto.offset.reset selects. Raises
        Rejected if it cannot be found."""
        partition, settings = shared.partition, shared.state.settings()
        partition.replica.check_leads()
        if settings.auto_offset_reset == EARLIEST:
            return partition.log.offset_for_timestamp(EARLIEST_TIMESTAMP).offset
        if settings.auto_offset_reset == LATEST:
            return partition.log.offset_for_timestamp(LATEST_TIMESTAMP).offset
        timestamp = max(0, self.clock.now_ms() - settings.reset_duration_ms)
        offset = (yield from partition.log.search_timestamp(timestamp, Isolation.READ_UNCOMMITTED)).offset
        if offset < 0:
            name = f"{partition.topic}-{partition.index}"
            raise Rejected(ErrorCode.OFFSET_NOT_AVAILABLE, f"Offset for timestamp {timestamp} not found for topic partition: {name}")
        return offset

    def _failed(self, shared: SharePartitionInUse, error: Rejected) -> Rejected:
        """Drop a share partition because of `error`, unless an earlier error has dropped it. Return the error that has dropped it; the
        fetches of the share partition fail with that error.
        """
        if shared.failure is None:
            shared.failure = error
            self._forget(shared)
            shared.wake()
        return shared.failure

    def _forget(self, shared: SharePartitionInUse) -> None:
        if self._in_use.get(shared.key) is shared:
            del self._in_use[shared.key]
            keys = self._groups[shared.key.group_id]
            del keys[shared.key]
            if not keys:
                del self._groups[shared.key.group_id]
        if shared.timer is not None:
            shared.timer.cancel()

    def fence(self, shared: SharePartitionInUse, error: Rejected) -> None:
        """Drop a share partition if `error` is one after which it must be loaded again, such as NOT_LEADER_OR_FOLLOWER; otherwise do
        nothing.
        """
        if error.code in _FENCING:
            self._failed(shared, error)

    # --- acknowledgements --------------------------------------------------------------------------------------------------------

    def acknowledge(self, key: SharePartitionKey, member_id: str, batches: Sequence[AcknowledgementBatch]) -> Committed:
        """Apply a member's acknowledgements (`batches` of offsets). Return a future that completes when they are persisted, or None if they
        are persisted already. If they are not allowed or cannot be persisted, either this call or the future raises Rejected.
        """
        shared = self._in_use.get(key)
        if shared is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        update = acknowledge(shared.state, member_id, batches, self.clock.mono_ms())
        self.watch_locks(shared)
        committed = self._persist(shared, update)
        if committed is None:
            self._count(batches)
        else:
            committed.add_done_callback(lambda done: self._count(batches) if failure_of(done) is None else None)
        return committed

    def _count(self, batches: Sequence[AcknowledgementBatch]) -> None:
        for first, last, types in batches:
            self.acknowledged.update({types[0]: last - first + 1} if len(types) == 1 else Counter(types))

    def _persist(self, shared: SharePartitionInUse, update: StateUpdate) -> Committed:
        if not update.batches:
            return None
        try:
            written = self._persister.write(shared.key, shared.state.state_to_write(update.batches))
        except Rejected as error:
            raise self._undo(shared, update, error) from error
        if written is None:
            self._written(shared, update)
            return None
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(done: asyncio.Future[None]) -> None:
            error = failure_of(done)
            if error is None:
                self._written(shared, update)
                failure = None
            else:
                failure = self._undo(shared, update, error)
            if not answer.done():
                if failure is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(failure)
                    answer.exception()  # mark the exception as retrieved: nothing awaits the write of a released acquisition

        written.add_done_callback(finish)
        return answer

    def _written(self, shared: SharePartitionInUse, update: StateUpdate) -> None:
        shared.state.commit(update)
        self._begin_dead_letters(shared)
        shared.wake()

    def _undo(self, shared: SharePartitionInUse, update: StateUpdate, error: Rejected) -> Rejected:
        shared.state.roll_back(update, self.clock.mono_ms())
        shared.wake()
        failure = _for_clients(error)
        self.fence(shared, failure)
        return failure

    # --- locks -------------------------------------------------------------------------------------------------------------------

    def watch_locks(self, shared: SharePartitionInUse) -> None:
        """Schedule the share partition's timer for the acquisition lock that expires first."""
        deadline = shared.state.next_lock_deadline_ms
        timer = shared.timer
        if deadline is None or shared.failure is not None or (timer is not None and timer.active and timer.deadline_ms <= deadline):
            return
        if timer is not None:
            timer.cancel()
        shared.timer = self._timers.schedule(deadline, partial(self._expire_locks, shared))

    def _expire_locks(self, shared: SharePartitionInUse) -> None:
        shared.timer = None
        expired = shared.state.expire_locks(self.clock.mono_ms())
        if expired:
            shared.lock_timeouts += sum(batch.last_offset - batch.first_offset + 1 for batch in expired)
            self._persist_ended(shared, expired)
            shared.wake()
        self.watch_locks(shared)

    def _persist_ended(self, shared: SharePartitionInUse, ended: list[StateBatch]) -> None:
        """Persist state changes that took effect without a request (`ended`): records whose lock has expired, and records that are in the
        dead letter queue now. A failure is only logged; the next successful write for these records corrects the persisted state.
        """

        def write_ended(failure: Rejected | None) -> None:
            if failure is not None:
                partition = shared.partition
                logger.warning("The share state of %s-%d could not be written: %s", partition.topic, partition.index, failure)
            shared.state.add_expired_dead_letters(ended)
            self._begin_dead_letters(shared)
            if shared.state.trim():
                shared.wake()

        try:
            written = self._persister.write(shared.key, shared.state.state_to_write(ended))
        except Rejected as error:
            write_ended(error)
            return
        if written is None:
            write_ended(None)
        else:
            written.add_done_callback(lambda done: write_ended(failure_of(done)))

    # --- dead letters ------------------------------------------------------------------------------------------------------------

    def _begin_dead_letters(self, shared: SharePartitionInUse) -> None:
        if shared.state.dead_letters:
            letters, shared.state.dead_letters = shared.state.dead_letters, []
            self._nursery.run("dead letters of a share group", partial(self._write_dead_letters, shared, letters))

    async def _write_dead_letters(self, shared: SharePartitionInUse, letters: Sequence[DeadLetters]) -> None:
        group_id, partition = shared.key.group_id, shared.partition
        for each in letters:
            try:
                await self._write_to_queue(group_id, partition, each)
            except Rejected as error:
                lost = "The records %d to %d of %s-%d are not in the dead letter queue of share group %s: %s"
                logger.error(lost, each.first_offset, each.last_offset, partition.topic, partition.index, group_id, error)
            self._persist_ended(shared, [shared.state.archive_dead_letters(each)])

    # --- sessions and leadership -------------------------------------------------------------------------------------------------

    def release(self, session: ShareSession) -> None:
        """End a member's share session, and release the records that the member has acquired, so that others can acquire them. Do nothing
        if the session has ended: the member may have begun another one while the session's last acknowledgements were persisted."""
        if self.sessions.get(session.group_id, session.member_id) is not session:
            return
        self.sessions.remove(session.group_id, session.member_id)
        for topic_id, index in session.partitions:
            shared = self._in_use.get(SharePartitionKey(session.group_id, topic_id, index))
            if shared is None:
                continue
            try:
                self._persist(shared, shared.state.release(session.member_id))
            except Rejected as error:
                logger.warning("The records of a member of share group %s could not be released: %s", session.group_id, error)

    def disconnected(self, session: ShareSession) -> None:
        """End the session of a connection that was closed. If it was the group's last session on this broker, drop the group's share
        partitions."""
        self.release(session)
        if not self.sessions.has_members(session.group_id):
            for key in list(self._groups.get(session.group_id, ())):
                self._failed(self._in_use[key], Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def on_resignation(self, topic: str, index: int, _epoch: int | None) -> None:
        """Drop the share partitions of a partition that this broker does not lead any more (`Publisher.on_resignation`)."""
        for shared in self.in_use():
            if shared.partition.topic == topic and shared.partition.index == index:
                self._failed(shared, Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def stop(self) -> None:
        """Drop all share partitions, which completes their waiting fetches and stops all timers, because the broker is shutting down."""
        for shared in self.in_use():
            self._failed(shared, Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER))


def _for_clients(error: Rejected) -> Rejected:
    return Rejected(_OF_COORDINATOR.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR), error.message)

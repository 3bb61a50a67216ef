"""One partition of this broker: its replica state machine, its log, and the requests that wait for either.

Invariants:
* The replica (`ottla.broker.replication`) decides what an append, a sync or a leader change requires. This module performs it.
* The append, sync or metadata change that satisfies a waiting request completes it. No request polls.
* Every change that could alter a response to a consumer or follower calls the watchers, because fetch sessions (fetch_sessions) skip
  partitions without a change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.broker.core.clock import Clock
from ottla.broker.core.log_config import INT64_MAX, LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.in_sync import Accepted, Proposal
from ottla.broker.replication.leadership import REPLICA_LAG_TIME_MAX_MS, Registration, sole_replica_registration
from ottla.broker.replication.progress import FollowerFetch
from ottla.broker.replication.purgatory import IN_OWN_LOG, REPLICATED, Condition, Purgatory
from ottla.broker.replication.read_replica import preferred
from ottla.broker.replication.replica import COMMITTED, FETCH, LOW_WATERMARK, PROPOSE, SYNC, Replica
from ottla.broker.replication.throttle import Throttle
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.storage.batch_check import Checked, check_produce_batch, check_size
from ottla.broker.storage.partition_log import AppendInfo, Origin, PartitionLog
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.control import MARKER_BYTES, marker_batch
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.wire import Buffer

logger = logging.getLogger(__name__)
retries = logging.getLogger("ottla.broker.retries")
"""The logger of duplicate batches. The partition log does not store them, and a counter would be lost when the broker gets SIGKILL."""

Woken = Callable[[int], None]
READ_LATER: Final = -1
"""The value that watchers get in place of a number of bytes, for a change that the next response must carry but that completes no wait,
such as a new log start offset."""

_FAR_FUTURE_MS = 2**62
_CLIENT: Final = Origin.CLIENT
"""A module-level name for Origin.CLIENT: a global is read faster than an enum's attribute, and every append reads it."""


@dataclass(slots=True)
class ClusterContext:
    """State that all partitions of a cluster broker share. Partitions of a standalone node have none.

    The metadata publisher keeps `brokers` up to date. `propose` sends the controller the ISR change that a partition's replica proposes.
    `has` returns whether the cluster has a partition of this topic (by name or id) and index or, with index None, whether it has the topic.
    `rack_of` returns the rack of a broker that consumers can reach; None instead of the function means that racks are not used.
    """

    brokers: Brokers
    propose: Callable[[Partition], None]
    has: Callable[[str | bytes, int | None], bool]
    lag_max_ms: int = REPLICA_LAG_TIME_MAX_MS
    rack_of: Callable[[int], str | None] | None = None
    throttle: Throttle | None = None
    """The replication quota for data sent to followers."""


class Partition:
    """A replica of a partition on this broker, with its log.

    `watchers` are called with the number of bytes that became readable, with 0 for a change that requires a new read (such as a deletion),
    or with `READ_LATER` for a change that completes no waiting fetch. `log_end_watchers` are the same for followers, which read up to the
    log end. `fetcher`, which a replica fetcher sets, is called when the log start offset has moved.

    Without a `context` the replica is the only one, and leads from the start; otherwise it waits for metadata. The partition adds itself to
    `awaiting_flush` while unsynced records wait for flush.ms, and to `shrink_candidates` while `maybe_shrink_isr` may have something to do.
    """

    __slots__ = (
        "_active",
        "_awaiting_flush",
        "_clock",
        "_context",
        "_deletions",
        "_flusher",
        "_shrink_candidates",
        "_sync",
        "_unsynced_since_ms",
        "_waits",
        "bytes_in",
        "fetcher",
        "index",
        "log",
        "log_end_watchers",
        "messages_in",
        "removed",
        "replica",
        "topic",
        "watchers",
    )

    def __init__(
        self,
        log: PartitionLog,
        flusher: Flusher,
        clock: Clock,
        context: ClusterContext | None = None,
        *,
        awaiting_flush: set[Partition] | None = None,
        shrink_candidates: dict[Partition, None] | None = None,
    ) -> None:
        self.topic = log.topic
        self.index = log.partition
        self.log = log
        self.removed = False
        self.bytes_in = self.messages_in = 0
        """Bytes and records that this broker has appended as the leader since its start, without transaction markers."""
        self.watchers: dict[object, Woken] = {}
        self.log_end_watchers: dict[object, Woken] = {}
        self.fetcher: Callable[[], None] | None = None
        log.on_change = self._log_changed
        self._flusher = flusher
        self._clock = clock
        self._context = context
        self._sync: asyncio.Future[None] | None = None
        self._unsynced_since_ms = 0
        self._awaiting_flush: set[Partition] = set() if awaiting_flush is None else awaiting_flush
        self._shrink_candidates: dict[Partition, None] = {} if shrink_candidates is None else shrink_candidates
        self._active = log.segments.active
        self._waits: Purgatory[asyncio.Future[None]] = Purgatory()
        self._deletions: list[tuple[int, asyncio.Future[None]]] = []
        brokers, lag_max_ms = (None, REPLICA_LAG_TIME_MAX_MS) if context is None else (context.brokers, context.lag_max_ms)
        self.replica = replica = Replica(
            log_end=log.log_end_offset,
            synced=log.recovery_point,
            high_watermark=log.high_watermark,
            brokers=brokers,
            lag_max_ms=lag_max_ms,
        )
        replica.min_in_sync_changed(log.config.min_insync_replicas, 0)
        if context is None:
            self._apply(replica.lead(sole_replica_registration(log.leader_epoch), clock.mono_ms()))

    @property
    def leader_epoch(self) -> int:
        """The partition's current leader epoch."""
        return self.replica.leader_epoch

    @property
    def leads(self) -> bool:
        """Whether this broker leads the partition."""
        return self.replica.leads

    def acknowledges_at_once(self, *, acks_all: bool) -> bool:
        """Return whether every append is acknowledged without a wait: flush.messages is not set, and no other replica must confirm it."""
        replica = self.replica
        return replica.leads and not (acks_all and replica.has_followers) and self.log.config.flush_messages == INT64_MAX

    def append(
        self,
        batch: Buffer,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = None,
        *,
        acks_all: bool = False,
        checked: Checked | None = None,
    ) -> AppendInfo:
        """Append one batch of a client or coordinator (`origin`) and return its offsets. If this raises Rejected, nothing was written.

        Before it acknowledges the append, the caller must wait for the future that `when` returns. Raises TooLongForEventLoop for a client
        batch whose check would block the event loop; the caller then awaits `check`, on a thread, and passes its result as `checked`.

        The first batch of a transaction needs the guard that `start_verification` returned. With `acks_all`, and always for coordinators,
        the batch is rejected with NOT_ENOUGH_REPLICAS if the ISR is below min.insync.replicas."""
        log, replica = self.log, self.replica
        if replica.has_followers or not replica.leads:
            self._check_may_append(acks_all=acks_all or origin is not Origin.CLIENT)
        now_ms, epoch = self._clock.now_ms(), replica.leader_epoch
        if origin is _CLIENT:
            if checked is None:
                checked = check_produce_batch(batch, config=log.config, now_ms=now_ms, at_once=True)
            info = log.append_parsed(
                checked.header, checked.bytes_from_magic, origin=origin, leader_epoch=epoch, now_ms=now_ms, guard=guard
            )
        else:
            check_size(len(batch), log.config)
            info = log.append(batch, origin=origin, leader_epoch=epoch, now_ms=now_ms, guard=guard)
        if info.duplicate:
            retries.debug("Retry absorbed: %s-%d has offsets %d to %d already", self.topic, self.index, info.first_offset, info.last_offset)
        else:
            size = len(batch)
            self.bytes_in += size
            self.messages_in += info.last_offset - info.first_offset + 1
            self._grew(size)
        return info

    def check(self, batch: Buffer) -> asyncio.Future[Checked]:
        """Check a client's batch on a thread. Return a future of the result for `append`; it fails with Rejected for an invalid batch."""
        config, now_ms = self.log.config, self._clock.now_ms()
        return self._flusher.compute(lambda: check_produce_batch(batch, config=config, now_ms=now_ms))

    def append_records(self, records: Sequence[SimpleRecord]) -> AppendInfo:
        """Append a coordinator's records as one batch; records without a timestamp get the current time. Raises Rejected, and nothing was
        written then, for example if this broker does not lead the partition (NOT_LEADER_OR_FOLLOWER)."""
        now_ms = self._clock.now_ms()
        stamped = [SimpleRecord(r.key, r.value, now_ms if r.timestamp < 0 else r.timestamp, r.headers) for r in records]
        return self.append(build_batch(stamped), Origin.COORDINATOR)

    def append_marker(self, marker: TxnMarker) -> AppendInfo:
        """Append a transaction marker, whether or not the producer has an open transaction here.

        Raises Rejected for an outdated epoch of the producer or coordinator, and like `append`. Every waiting fetch reads again, because
        the marker may make far more data readable than its own bytes."""
        self._check_may_append(acks_all=True)
        now_ms = self._clock.now_ms()
        made = marker_batch(marker.commit, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, now_ms)
        info = self.log.append_parsed(
            *made,
            origin=Origin.COORDINATOR,
            leader_epoch=self.replica.leader_epoch,
            now_ms=now_ms,
            transaction_version=marker.transaction_version,
        )
        self._grew(MARKER_BYTES)
        self._wake(0)
        return info

    def _check_may_append(self, *, acks_all: bool) -> None:
        self.replica.check_leads()
        if acks_all:
            self.replica.check_enough_in_sync()

    def when(self, condition: Condition, info: AppendInfo) -> asyncio.Future[None] | None:
        """Return a future that completes when `condition` (such as REPLICATED) holds for the append `info`, or None if it holds already.

        The future fails with Rejected if the leadership ends or the partition is removed first. With acks=all it fails with
        NOT_ENOUGH_REPLICAS_AFTER_APPEND if the ISR is too small when the records become committed; if they are committed already, that
        error is raised here.
        """
        replica = self.replica
        if info.last_offset < (replica.own_end if condition is IN_OWN_LOG else replica.high_watermark):
            if replica.has_followers and condition is REPLICATED:
                replica.check_enough_in_sync_after_append()
            return None
        return self._wait(condition, info.last_offset)

    def when_all_committed(self) -> asyncio.Future[None] | None:
        """Return a future that completes when every record now in the log is committed in the current leader epoch; None if they are
        already.
        """
        last_offset = self.log.log_end_offset - 1
        return None if last_offset < self.replica.high_watermark else self._wait(Condition.COMMITTED, last_offset)

    def _wait(self, condition: Condition, last_offset: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.add(condition, last_offset, future)
        return future

    def lead(self, registration: Registration) -> None:
        """Become or stay leader, as the metadata (`registration`) says. Metadata older than the applied one is ignored.

        Raises Rejected if the log cannot begin the leader epoch, for example after a disk error; the replica's state is then unchanged."""
        replica = self.replica
        if replica.is_stale(registration):
            return
        elected = replica.is_elected(registration)
        if elected:
            self.log.become_leader(registration.leader_epoch)
        effects = replica.lead(registration, self._clock.mono_ms())
        self._shrink_candidates[self] = None
        if elected:
            self._fail_waits(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leadership has begun"), Condition.COMMITTED)
        self._apply(effects | LOW_WATERMARK)  # the replica with the lowest log start may have been removed
        self._wake(0)

    def follow(self, registration: Registration) -> bool:
        """Become or stay follower, as the metadata (`registration`) says, and fail pending requests. Ignore outdated metadata.

        Returns whether a new leader epoch has begun. The caller then restarts the fetch, even from the same broker."""
        if self.replica.is_stale(registration):
            return False
        effects = self.replica.follow(registration)
        self._fail_waits(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads now"), *Condition)
        self._wake(0)
        return bool(effects & FETCH)

    def reconfigure(self, config: LogConfig) -> None:
        """Apply a new topic configuration to the log, and its min.insync.replicas to the replica's state."""
        self.log.config = config
        self._apply_and_wake(self.replica.min_in_sync_changed(config.min_insync_replicas, self._clock.mono_ms()))

    def remove(self) -> None:
        """Stop serving the partition, and fail its pending requests (Kafka's DelayedProduce.tryComplete).

        The error is NOT_LEADER_OR_FOLLOWER if the cluster still has the partition, otherwise UNKNOWN_TOPIC_OR_PARTITION.
        """
        self.removed = True
        self._awaiting_flush.discard(self)
        self._shrink_candidates.pop(self, None)
        goes_on = self._context is not None and self._context.has(self.log.topic_id, self.index)
        elsewhere = Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "other brokers have the partition now")
        deleted = Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted")
        self._fail_waits(elsewhere if goes_on else deleted, *Condition)
        self._wake(0)

    # --- followers of this leader ------------------------------------------------------------------------------------------------

    def fetched(self, fetch: FollowerFetch, leader_end: int) -> None:
        """Record a follower's fetch whose offset and epoch agree with this log. `leader_end` is this log's end offset before the read.

        Raises Rejected for a broker that is not a follower here, or whose incarnation was replaced.
        """
        self._apply_and_wake(self.replica.fetched(fetch, leader_end, self._clock.mono_ms()))
        if fetch.offset != leader_end:
            self._shrink_candidates[self] = None

    def is_throttled(self, follower: int) -> bool:
        """Return whether the follower gets no records now, because it is not in the ISR and the leader's replication quota is exceeded.

        Source: Kafka's ReplicaManager.shouldLeaderThrottle.
        """
        throttle = None if self._context is None else self._context.throttle
        if throttle is None or not throttle.covers(self.topic, self.index) or follower in self.replica.leadership.in_sync.committed:
            return False
        return throttle.is_exceeded(self._clock.mono_ms())

    def sent(self, size: int) -> None:
        """Count `size` bytes, which were sent to a follower, against the leader's replication quota."""
        throttle = None if self._context is None else self._context.throttle
        if throttle is not None and throttle.covers(self.topic, self.index):
            throttle.record(size, self._clock.mono_ms())

    def maybe_shrink_isr(self) -> None:
        """Propose to the controller to remove lagging replicas from the ISR.

        While the partition is in `shrink_candidates`, a periodic job calls this twice per replica.lag.time.max.ms.
        """
        if self.replica.has_followers:
            self._apply_and_wake(self.replica.maybe_shrink_isr(self._clock.mono_ms()) | LOW_WATERMARK)
        if not self.replica.followers_may_lag and not self._deletions:
            self._shrink_candidates.pop(self, None)

    def proposal_completed(self, proposal: Proposal, answer: Accepted | ErrorCode) -> None:
        """Apply the controller's answer to an ISR change that this leader has proposed (AlterPartition): the accepted ISR or an error."""
        self._apply_and_wake(self.replica.proposal_completed(proposal, answer, self._clock.mono_ms()))
        self._shrink_candidates[self] = None
        self._wake_followers(READ_LATER)  # a replica that left the ISR must be read again, because it may rejoin

    def low_watermark(self) -> int:
        """Return the partition's low watermark: the lowest log start offset of all live replicas."""
        return self.replica.low_watermark(self.log.log_start_offset)

    def when_deleted(self, offset: int) -> asyncio.Future[None] | None:
        """Return a future that completes when every live replica has deleted the records before `offset`, or None if that holds already.

        The future fails with Rejected if the leadership ends or the partition is removed first.
        """
        if self.low_watermark() >= offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._deletions.append((offset, future))
        self._shrink_candidates[self] = None
        return future

    @property
    def may_redirect_consumers(self) -> bool:
        """Whether this leader may redirect consumers to a nearer replica, because replica.selector.class selects by rack."""
        return self.replica.has_followers and self._context is not None and self._context.rack_of is not None

    def preferred_replica(self, rack: str, offset: int) -> int | None:
        """Return the follower from which a consumer in `rack` should read `offset`; None if it should read from this broker."""
        context = self._context
        if context is None or context.rack_of is None or not self.replica.leads:
            return None
        return preferred(self.replica.leadership, rack, offset, context.rack_of)

    # --- following ---------------------------------------------------------------------------------------------------------------

    def append_fetched(self, records: Buffer, leader_epoch: int) -> int | None:
        """Append records that the leader returned for a fetch in `leader_epoch`.

        Returns the leader epoch of the last appended batch, or None if nothing was appended. Raises Rejected for a corrupt batch; the
        batches before it stay appended.
        """
        log, before = self.log, self.log.log_end_offset
        try:
            log.append(records, origin=Origin.REPLICATION, leader_epoch=leader_epoch, now_ms=self._clock.now_ms())
        finally:
            if log.high_watermark != self.replica.high_watermark:  # the append restarted an empty log: the leader's starts inside the batch
                self.replica.restarted(log.high_watermark)
            if log.log_end_offset != before:
                self._grew(len(records))
        return None if log.log_end_offset == before else log.epochs.latest

    def apply_leader_offsets(self, high_watermark: int, log_start: int) -> None:
        """Apply the leader's high watermark and log start offset, limited to this log's end. Raises Rejected after a disk error."""
        log = self.log
        self._apply_and_wake(self.replica.update_high_watermark(max(high_watermark, log.log_start_offset)))
        if log.log_start_offset < log_start <= log.high_watermark:
            log.delete_records_before(log_start)

    def truncate(self, offset: int) -> None:
        """Delete the records from `offset` on in this follower's log: the leader lacks them. Raises OSError after a disk error."""
        mark = self.replica.high_watermark
        if offset < mark:
            known = self.replica.leadership.registration
            election = "unclean" if known.recovering else "clean, or its leader has recovered since"
            cut = f"{self.topic}-{self.index} is cut at {offset}, below its high watermark {mark}"
            leader = f"broker {known.leader} lacks that, its leader in epoch {self.leader_epoch}"
            logger.warning("%s: %s. The metadata calls the election %s", cut, leader, election)
        self.log.truncate_to(offset, self._clock.now_ms())
        self._cut()

    def restart(self, offset: int) -> None:
        """Delete all records and begin the log again at `offset`: the leader has none before it. Raises OSError after a disk error."""
        self.log.restart_at(offset, self._clock.now_ms())
        self._cut()

    def _cut(self) -> None:
        log = self.log
        self._active = log.segments.active
        self.replica.truncated(log.log_end_offset)
        if log.high_watermark != self.replica.high_watermark:
            self.replica.restarted(log.log_end_offset)
        self._wake(0)

    # --- producer state ----------------------------------------------------------------------------------------------------------

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool = False
    ) -> VerificationGuard | None:
        """Return the guard that the append of a transaction's batch requires, before the coordinator verifies the transaction (KIP-890).
        Return None if no verification is needed, because the transaction is open here or transaction.partition.verification.enable is
        false. That setting is ignored with `supports_epoch_bump` (transaction version 2), because the verification then also adds the
        partition. Raises Rejected for an outdated producer epoch, and if this broker is not the leader."""
        self.replica.check_leads()
        if not (supports_epoch_bump or self.log.verifies_transactions):
            return None
        state = self.log.producer_state
        return state.start_verification(producer_id, epoch, sequence, supports_epoch_bump=supports_epoch_bump, now_ms=self._clock.now_ms())

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether this producer has an open transaction with the producer epoch `epoch` in the partition."""
        return self.log.producer_state.has_open_transaction(producer_id, epoch)

    def coordinator_epoch_seen(self, producer_id: int) -> int:
        """Return the coordinator epoch of the producer's last transaction marker, or -1 if there is none."""
        entry = self.log.producer_state.get(producer_id)
        return -1 if entry is None else entry.coordinator_epoch

    def forget_producers(self) -> None:
        """Delete the state of every producer without an open transaction, as if producer.id.expiration.ms had passed."""
        self.log.producer_state.expire(_FAR_FUTURE_MS, 0)

    # --- syncs -------------------------------------------------------------------------------------------------------------------

    def flush_if_due(self) -> None:
        """Start a sync of the partition's log if its unsynced records are older than flush.ms."""
        if self._unsynced_since_ms and self._clock.mono_ms() - self._unsynced_since_ms >= self.log.config.flush_ms:
            self.flush()

    @property
    def sync_is_due(self) -> bool:
        """Whether flush.messages requires a sync that is not complete. Until it is, a follower must not report its log end to the leader.

        Reporting is implicit: the leader takes the next fetch offset as the follower's log end.
        """
        return self.replica.sync_is_due and not self.removed

    def flush(self) -> asyncio.Future[None] | None:
        """Start a sync unless one is running, and return the future of the running sync.

        Returns None if every record is synced. Also returns None if a sync cannot begin now (OSError): the next append or checkpoint then
        tries again, and no record counts as synced until a sync succeeds."""
        if not self.replica.sync_may_begin:
            return self._sync
        try:
            sync = self._sync = self._flusher.flush(self.log, self._synced)
        except OSError as error:
            logger.error("%s-%d cannot be synced now: %s", self.topic, self.index, error)
            return None
        self.replica.sync_began()
        self._unsynced_since_ms = 0
        self._awaiting_flush.discard(self)
        return sync

    def _grew(self, size: int) -> None:
        log, replica = self.log, self.replica
        config, active = log.config, log.segments.active
        if config.flush_ms != INT64_MAX and not self._unsynced_since_ms:
            self._unsynced_since_ms = self._clock.mono_ms()
            self._awaiting_flush.add(self)
        now_ms = 0
        if replica.has_followers:
            now_ms = self._clock.mono_ms()
            self._shrink_candidates[self] = None
        effects = replica.appended(log.log_end_offset, now_ms, config.flush_messages)
        if active is not self._active:
            self._active = active
            effects |= SYNC
        self._apply(effects)
        if self.watchers and effects & COMMITTED:
            self._wake_readers(0 if replica.has_followers else size)  # with followers, records of earlier appends may become committed now
        if self.log_end_watchers:
            self._wake_followers(size)

    def _synced(self, offset: int) -> None:
        self._sync = None
        effects = self.replica.sync_ended(offset, self._clock.mono_ms(), self.log.config.flush_messages)
        if not self.removed:
            self._apply(effects)
            self._wake_readers(0)

    def _apply_and_wake(self, effects: int) -> None:
        """Perform the effects (bit flags) of a change other than an append, and wake waiting fetches if the high watermark has moved."""
        if effects:
            self._apply(effects)
            if effects & COMMITTED:
                self._wake_readers(0)

    def _apply(self, effects: int) -> None:
        """Perform the effects (bit flags) that the replica state machine returned: start a sync, advance the high watermark, propose an ISR
        change. Then complete the waits whose condition holds."""
        if effects & SYNC:
            self.flush()
        if effects & COMMITTED:
            if self.replica.leads:
                self.log.advance_high_watermark(self.replica.high_watermark)
            else:
                self.log.update_high_watermark(self.replica.high_watermark)
            if self.log_end_watchers:
                self._wake_followers(READ_LATER)
        if effects > COMMITTED:
            self._act_for_others(effects)
        if self._waits.queues:
            self._release(Condition.COMMITTED, self.replica.high_watermark)
            self._release(Condition.REPLICATED, self.replica.high_watermark)
            self._release(Condition.IN_OWN_LOG, self.replica.own_end)

    def _act_for_others(self, effects: int) -> None:
        if effects & PROPOSE:
            assert self._context is not None, "a standalone node proposes no ISR changes"
            self._context.propose(self)
        if effects & LOW_WATERMARK and self._deletions:
            self._release_deletions()

    def _release(self, condition: Condition, end: int) -> None:
        futures = self._waits.reached(condition, end)
        if futures and condition is Condition.REPLICATED and self.replica.has_followers:
            try:
                self.replica.check_enough_in_sync_after_append()
            except Rejected as error:
                _fail(futures, error)
                return
        for future in futures:
            if not future.done():
                future.set_result(None)

    def _release_deletions(self) -> None:
        reached = self.low_watermark()
        for offset, future in self._deletions:
            if offset <= reached and not future.done():
                future.set_result(None)
        self._deletions = [(offset, future) for offset, future in self._deletions if not future.done()]

    def _fail_waits(self, error: Rejected, *conditions: Condition) -> None:
        _fail(self._waits.drain(*conditions), error)
        if not self.replica.leads or self.removed:
            _fail([future for _, future in self._deletions], error)
            self._deletions = []

    def _log_changed(self) -> None:
        self._wake(READ_LATER)
        if self.fetcher is not None:
            self.fetcher()

    def _wake(self, size: int) -> None:
        self._wake_readers(size)
        self._wake_followers(size)

    def _wake_readers(self, size: int) -> None:
        for woken in list(self.watchers.values()):
            woken(size)

    def _wake_followers(self, size: int) -> None:
        for woken in list(self.log_end_watchers.values()):
            woken(size)


def _fail(futures: Iterable[asyncio.Future[None]], error: Rejected) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
            future.exception()  # mark the exception as retrieved, else the event loop logs a traceback if nothing awaits the future

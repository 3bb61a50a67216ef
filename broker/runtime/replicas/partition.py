"""One partition of this broker: its replica, which decides, its log, and everyone who waits for them.

Rules:
* what an append, a sync or a change of leader means is the replica's decision (`ottla.broker.replication`); here it is carried out;
* who waits is woken by the append (or the fsync) that it waited for, never by looking again;
* whatever changes an answer to a reader or a follower calls their watchers: fetch sessions (fetch_sessions) read nothing that has not.
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
from ottla.broker.replication.leadership import REPLICA_LAG_TIME_MAX_MS, Registration, alone
from ottla.broker.replication.progress import FollowerFetch
from ottla.broker.replication.read_replica import preferred
from ottla.broker.replication.replica import COMMITTED, FETCH, LOW_WATERMARK, PROPOSE, SYNC, Replica
from ottla.broker.replication.throttle import Throttle
from ottla.broker.replication.waits import ON_DISK, REPLICATED, Condition, Waits
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.storage.batch_check import Checked, check_produce_batch
from ottla.broker.storage.partition_log import AppendInfo, Origin, PartitionLog
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.control import MARKER_BYTES, marker_batch
from ottla.protocol.records.record import SimpleRecord, build_batch

logger = logging.getLogger(__name__)
retries = logging.getLogger("ottla.broker.retries")
"""A log does not hold the retries that it absorbed, and a counter would die with a SIGKILL: who wants to count them reads this."""

Buffer = bytes | bytearray | memoryview
Woken = Callable[[int], None]
LATER: Final = -1
"""A watcher is told so of a change that the next answer shows, but that ends no wait: a log start, a follower's high watermark."""

_FAR_FUTURE_MS = 2**62
_CLIENT: Final = Origin.CLIENT
"""As the names in `ottla.broker.replication.waits`."""


@dataclass(slots=True)
class Membership:
    """What the partitions of a cluster's member have in common; a broker without others has none of it.

    `brokers` is kept up to date by whoever follows the metadata; `propose` takes a partition whose replica has a `proposal`; `has` says
    whether the cluster has a partition of this topic (by name or by id) and number, or with None whether it has the topic. `rack_of` gives
    the rack of a broker that consumers can reach, where replica.selector.class is the one that looks at racks.
    """

    brokers: Brokers
    propose: Callable[[Partition], None]
    has: Callable[[str | bytes, int | None], bool]
    lag_max_ms: int = REPLICA_LAG_TIME_MAX_MS
    rack_of: Callable[[int], str | None] | None = None
    throttle: Throttle | None = None
    """Of what is sent to followers."""


class Partition:
    """`watchers` are called with the number of bytes that became readable (0: look again for another reason, such as deletion; `LATER`),
    where `end_watchers` may read to the log's end: followers. `fetcher` is called when the log's start has moved, while a fetcher follows.

    Without a `membership` it leads alone from the start; else it waits for what metadata says. It is in `timed` while something waits for
    flush.ms, and in `behind` while `look_for_laggards` may have something to do.
    """

    __slots__ = (
        "_active",
        "_behind",
        "_clock",
        "_deletions",
        "_flusher",
        "_membership",
        "_sync",
        "_timed",
        "_unsynced_since_ms",
        "_waits",
        "bytes_in",
        "end_watchers",
        "fetcher",
        "index",
        "log",
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
        membership: Membership | None = None,
        *,
        timed: set[Partition] | None = None,
        behind: dict[Partition, None] | None = None,
    ) -> None:
        self.topic = log.topic
        self.index = log.partition
        self.log = log
        self.removed = False
        self.bytes_in = self.messages_in = 0
        """What was appended as the leader, since the start."""
        self.watchers: dict[object, Woken] = {}
        self.end_watchers: dict[object, Woken] = {}
        self.fetcher: Callable[[], None] | None = None
        log.on_change = self._log_changed
        self._flusher = flusher
        self._clock = clock
        self._membership = membership
        self._sync: asyncio.Future[None] | None = None
        self._unsynced_since_ms = 0
        self._timed: set[Partition] = set() if timed is None else timed
        self._behind: dict[Partition, None] = {} if behind is None else behind
        self._active = log.segments.active
        self._waits: Waits[asyncio.Future[None]] = Waits()
        self._deletions: list[tuple[int, asyncio.Future[None]]] = []
        brokers, lag_max_ms = (None, REPLICA_LAG_TIME_MAX_MS) if membership is None else (membership.brokers, membership.lag_max_ms)
        self.replica = replica = Replica(
            log_end=log.log_end_offset,
            synced=log.recovery_point,
            high_watermark=log.high_watermark,
            brokers=brokers,
            lag_max_ms=lag_max_ms,
        )
        replica.min_in_sync_changed(log.config.min_insync_replicas, 0)
        if membership is None:
            self._act(replica.lead(alone(log.leader_epoch), clock.mono_ms()))

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leadership that is now."""
        return self.replica.leader_epoch

    @property
    def leads(self) -> bool:
        """Whether this broker leads the partition."""
        return self.replica.leads

    @property
    def acknowledges_at_once(self) -> bool:
        """Whether an append needs nothing more for any acknowledgement: this broker leads alone, and no sync is waited for."""
        replica = self.replica
        return replica.leads and not replica.shared and self.log.config.flush_messages == INT64_MAX

    def append(
        self,
        batch: Buffer,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = None,
        *,
        acks_all: bool = False,
        checked: Checked | None = None,
    ) -> AppendInfo:
        """Append one batch now; raises Rejected, and then nothing was written. See `when` before acknowledging.

        Raises TooMuchAtOnce for a client's batch whose check would hold the loop: it comes again with what `check` found.

        A transaction's first batch needs the guard of `start_verification`. With `acks_all`, as always for coordinators, it is refused
        where too few are in sync.
        """
        log, replica = self.log, self.replica
        if replica.shared or not replica.leads:
            self._check_may_append(acks_all=acks_all or origin is not Origin.CLIENT)
        now_ms, epoch = self._clock.now_ms(), replica.leader_epoch
        if origin is _CLIENT:
            if checked is None:
                checked = check_produce_batch(batch, config=log.config, now_ms=now_ms, at_once=True)
            info = log.append_parsed(checked.header, checked.unstamped, origin=origin, leader_epoch=epoch, now_ms=now_ms, guard=guard)
        else:
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
        """Check a client's batch on a thread; the future fails with Rejected."""
        config, now_ms = self.log.config, self._clock.now_ms()
        return self._flusher.compute(lambda: check_produce_batch(batch, config=config, now_ms=now_ms))

    def append_records(self, records: Sequence[SimpleRecord], *, origin: Origin = Origin.COORDINATOR) -> AppendInfo:
        """Append records of a coordinator as one batch, stamped with the present time where they carry none."""
        now_ms = self._clock.now_ms()
        stamped = [SimpleRecord(r.key, r.value, now_ms if r.timestamp < 0 else r.timestamp, r.headers) for r in records]
        return self.append(build_batch(stamped), origin)

    def append_marker(self, marker: TxnMarker) -> AppendInfo:
        """End the producer's transaction here, whether or not one is open. Raises Rejected for a fenced producer or coordinator.

        All who wait look again: what the transaction held back has become readable, however little a marker weighs.
        """
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
        """A future that is done when the condition holds for the append, or None when it does now.

        It fails with Rejected if the leadership ends before that, or the partition goes; and where acks=all was asked for, and too few are
        in sync when they all have it (raised here, if that is now).
        """
        replica = self.replica
        if info.last_offset < (replica.own_end if condition is ON_DISK else replica.high_watermark):
            if replica.shared and condition is REPLICATED:
                replica.check_enough_have_it()
            return None
        return self._wait(condition, info.last_offset)

    def when_all_committed(self) -> asyncio.Future[None] | None:
        """The same for everything that the log holds now, whoever appended it: committed in the present leader epoch."""
        last_offset = self.log.log_end_offset - 1
        return None if last_offset < self.replica.high_watermark else self._wait(Condition.COMMITTED, last_offset)

    def _wait(self, condition: Condition, last_offset: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.add(condition, last_offset, future)
        return future

    def lead(self, registration: Registration) -> None:
        """Metadata says that this replica leads; what is older than is known is ignored. Raises Rejected; then it goes on as it was."""
        replica = self.replica
        if replica.is_stale(registration):
            return
        elected = replica.is_elected(registration)
        if elected:
            self.log.become_leader(registration.leader_epoch)
        effects = replica.lead(registration, self._clock.mono_ms())
        self._behind[self] = None
        if elected:
            self._fail_waits(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leadership has begun"), Condition.COMMITTED)
        self._act(effects)
        self._wake(0)

    def follow(self, registration: Registration) -> bool:
        """Metadata says that another replica leads: who waits is told so. What is older than is known is ignored.

        Whether a leadership has begun: then fetching begins anew, from the same broker too.
        """
        if self.replica.is_stale(registration):
            return False
        effects = self.replica.follow(registration)
        self._fail_waits(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads now"), *Condition)
        self._wake(0)
        return bool(effects & FETCH)

    def reconfigure(self, config: LogConfig) -> None:
        """The topic is configured otherwise now."""
        self.log.config = config
        self._moved(self.replica.min_in_sync_changed(config.min_insync_replicas, self._clock.mono_ms()))

    def remove(self) -> None:
        """It is served here no longer: whoever waits is told whether other brokers have it (KAFKA DelayedProduce.tryComplete)."""
        self.removed = True
        self._timed.discard(self)
        self._behind.pop(self, None)
        goes_on = self._membership is not None and self._membership.has(self.log.topic_id, self.index)
        elsewhere = Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "other brokers have the partition now")
        deleted = Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted")
        self._fail_waits(elsewhere if goes_on else deleted, *Condition)
        self._wake(0)

    # --- leading others ----------------------------------------------------------------------------------------------------------

    def fetched(self, fetch: FollowerFetch, leader_end: int) -> None:
        """A follower has fetched, and did not diverge; `leader_end` is where the log ended before it was read for that.

        Raises Rejected for who may not follow here, or was replaced.
        """
        self._moved(self.replica.fetched(fetch, leader_end, self._clock.mono_ms()))
        if fetch.offset != leader_end:
            self._behind[self] = None

    def holds_back(self, follower: int) -> bool:
        """Whether a follower gets nothing now: it is out of sync, and its throttle exceeded (KAFKA ReplicaManager.shouldLeaderThrottle)."""
        throttle = None if self._membership is None else self._membership.throttle
        if throttle is None or not throttle.covers(self.topic, self.index) or follower in self.replica.others.in_sync.committed:
            return False
        return throttle.is_exceeded(self._clock.mono_ms())

    def sent(self, size: int) -> None:
        """So many bytes go to a follower."""
        throttle = None if self._membership is None else self._membership.throttle
        if throttle is not None and throttle.covers(self.topic, self.index):
            throttle.record(size, self._clock.mono_ms())

    def look_for_laggards(self) -> None:
        """To be called every half of replica.lag.time.max.ms while this is `behind`: a replica that lags leaves the in-sync set."""
        if self.replica.shared:
            self._moved(self.replica.look_for_laggards(self._clock.mono_ms()) | LOW_WATERMARK)
        if not self.replica.may_lag and not self._deletions:
            self._behind.pop(self, None)

    def answered(self, proposal: Proposal, answer: Accepted | ErrorCode) -> None:
        """The controller has answered what the replica proposed."""
        self._moved(self.replica.answered(proposal, answer, self._clock.mono_ms()))
        self._behind[self] = None
        self._wake_followers(LATER)  # who left the in-sync set has to be looked at again: it may join

    def low_watermark(self) -> int:
        """Where the log of every living replica begins, or before that."""
        return self.replica.low_watermark(self.log.log_start_offset)

    def when_deleted(self, offset: int) -> asyncio.Future[None] | None:
        """A future that is done when every living replica has deleted what is before `offset`, or None when that is so now.

        It fails with Rejected if the leadership ends before that, or the partition goes.
        """
        if self.low_watermark() >= offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._deletions.append((offset, future))
        self._behind[self] = None
        return future

    @property
    def knows_racks(self) -> bool:
        """Whether consumers may be sent to a nearer replica: by the leader, where replica.selector.class looks at racks."""
        return self.replica.shared and self._membership is not None and self._membership.rack_of is not None

    def preferred_replica(self, rack: str, offset: int) -> int | None:
        """The follower that a consumer in `rack` is to read `offset` from; None where it is this broker."""
        membership = self._membership
        if membership is None or membership.rack_of is None or not self.replica.leads:
            return None
        return preferred(self.replica.others, rack, offset, membership.rack_of)

    # --- following ---------------------------------------------------------------------------------------------------------------

    def append_fetched(self, records: Buffer, leader_epoch: int) -> int | None:
        """Append what the leader sent when it was asked in `leader_epoch`; the epoch of the last batch, None where there was none.

        Raises Rejected for damage; the batches before it stay appended.
        """
        log, before = self.log, self.log.log_end_offset
        try:
            log.append(records, origin=Origin.REPLICATION, leader_epoch=leader_epoch, now_ms=self._clock.now_ms())
        finally:
            if log.high_watermark != self.replica.high_watermark:  # it had to begin anew, with the whole of its first batch
                self.replica.restarted(log.high_watermark)
            if log.log_end_offset != before:
                self._grew(len(records))
        return None if log.log_end_offset == before else log.epochs.latest

    def leader_said(self, high_watermark: int, log_start: int) -> None:
        """Take over where the leader's high watermark and log start are, as far as this log reaches. Raises Rejected."""
        log = self.log
        self._moved(self.replica.leader_said(max(high_watermark, log.log_start_offset)))
        if log.log_start_offset < log_start <= log.high_watermark:
            log.delete_records_before(log_start)

    def truncate(self, offset: int) -> None:
        """Drop what is at `offset` and after it: the leader has not got it. Raises OSError."""
        mark = self.replica.high_watermark
        if offset < mark:
            known = self.replica.others.registration
            election = "unclean" if known.recovering else "clean, or its leader has recovered since"
            cut = f"{self.topic}-{self.index} is cut at {offset}, below its high watermark {mark}"
            leader = f"broker {known.leader} lacks that, its leader in epoch {self.leader_epoch}"
            logger.warning("%s: %s. The metadata calls the election %s", cut, leader, election)
        self.log.truncate_to(offset, self._clock.now_ms())
        self._cut()

    def restart(self, offset: int) -> None:
        """Drop everything and begin at `offset`: what the leader had before that is deleted. Raises OSError."""
        self.log.restart_at(offset, self._clock.now_ms())
        self._cut()

    def _cut(self) -> None:
        log = self.log
        self._active = log.segments.active
        self.replica.truncated(log.log_end_offset)
        if log.high_watermark != self.replica.high_watermark:
            self.replica.restarted(log.log_end_offset)
        self._wake(0)

    # --- what a partition knows of its producers ---------------------------------------------------------------------------------

    def start_verification(self, producer_id: int, epoch: int, sequence: int, *, adds: bool = False) -> VerificationGuard | None:
        """Before a producer's batch: what to append it with once the transaction's coordinator has been asked (KIP-890).

        None: the transaction is open here, or transaction.partition.verification.enable is off, and there is nothing to ask. Producers of
        transaction version 2 (`adds`) add the partition in any case. Raises Rejected for an epoch of the past, and where this broker does
        not lead.
        """
        self.replica.check_leads()
        if not (adds or self.log.verifies_transactions):
            return None
        state = self.log.producer_state
        return state.start_verification(producer_id, epoch, sequence, adds=adds, now_ms=self._clock.now_ms())

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of this producer in this epoch is open here."""
        return self.log.producer_state.has_open_transaction(producer_id, epoch)

    def coordinator_epoch_seen(self, producer_id: int) -> int:
        """The epoch of the coordinator whose marker came last for this producer; -1 where none did."""
        entry = self.log.producer_state.get(producer_id)
        return -1 if entry is None else entry.coordinator_epoch

    def forget_producers(self) -> None:
        """Forget every producer without an open transaction, as if it had been silent for too long."""
        self.log.producer_state.expire(_FAR_FUTURE_MS, 0)

    # --- the disk ----------------------------------------------------------------------------------------------------------------

    def flush_if_due(self) -> None:
        """Sync what has waited for flush.ms."""
        if self._unsynced_since_ms and self._clock.mono_ms() - self._unsynced_since_ms >= self.log.config.flush_ms:
            self.flush()

    @property
    def sync_is_due(self) -> bool:
        """Whether flush.messages asks for a sync that has not ended: no other broker may be told of all that the log holds."""
        return self.replica.sync_is_due and not self.removed

    def flush(self) -> asyncio.Future[None] | None:
        """Start syncing what is not on disk yet, unless a sync is under way; a future that is done with the one or the other.

        None where there is nothing to sync, or where no sync can begin: that is left to the next call (of an append, or a checkpoint), and
        until then nobody is told that anything is on disk.
        """
        if not self.replica.sync_may_begin:
            return self._sync
        try:
            sync = self._sync = self._flusher.flush(self.log, self._synced)
        except OSError as error:
            logger.error("%s-%d cannot be synced now: %s", self.topic, self.index, error)
            return None
        self.replica.sync_began()
        self._unsynced_since_ms = 0
        self._timed.discard(self)
        return sync

    def _grew(self, size: int) -> None:
        log, replica = self.log, self.replica
        config, active = log.config, log.segments.active
        if config.flush_ms != INT64_MAX and not self._unsynced_since_ms:
            self._unsynced_since_ms = self._clock.mono_ms()
            self._timed.add(self)
        now_ms = 0
        if replica.shared:
            now_ms = self._clock.mono_ms()
            self._behind[self] = None
        effects = replica.appended(log.log_end_offset, now_ms, config.flush_messages)
        if active is not self._active:
            self._active = active
            effects |= SYNC
        self._act(effects)
        if self.watchers and effects & COMMITTED:
            self._wake_readers(0 if replica.shared else size)  # with others, what was there already may be committed only now
        if self.end_watchers:
            self._wake_followers(size)

    def _synced(self, offset: int) -> None:
        self._sync = None
        effects = self.replica.sync_ended(offset, self._clock.mono_ms(), self.log.config.flush_messages)
        if not self.removed:
            self._act(effects)
            self._wake_readers(0)

    def _moved(self, effects: int) -> None:
        """Do what the replica has decided about something else than an append."""
        if effects:
            self._act(effects)
            if effects & COMMITTED:
                self._wake_readers(0)

    def _act(self, effects: int) -> None:
        """Do what the replica has decided."""
        if effects & SYNC:
            self.flush()
        if effects & COMMITTED:
            if self.replica.leads:
                self.log.advance_high_watermark(self.replica.high_watermark)
            else:
                self.log.leader_said(self.replica.high_watermark)
            if self.end_watchers:
                self._wake_followers(LATER)
        if effects > COMMITTED:
            self._act_for_others(effects)
        if self._waits.queues:
            self._release(Condition.COMMITTED, self.replica.high_watermark)
            self._release(Condition.REPLICATED, self.replica.high_watermark)
            self._release(Condition.ON_DISK, self.replica.own_end)

    def _act_for_others(self, effects: int) -> None:
        if effects & PROPOSE:
            assert self._membership is not None, "one broker has nobody to propose"
            self._membership.propose(self)
        if effects & LOW_WATERMARK and self._deletions:
            self._release_deletions()

    def _release(self, condition: Condition, end: int) -> None:
        futures = self._waits.reached(condition, end)
        if futures and condition is Condition.REPLICATED and self.replica.shared:
            try:
                self.replica.check_enough_have_it()
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
        self._wake(LATER)
        if self.fetcher is not None:
            self.fetcher()

    def _wake(self, size: int) -> None:
        self._wake_readers(size)
        self._wake_followers(size)

    def _wake_readers(self, size: int) -> None:
        for woken in list(self.watchers.values()):
            woken(size)

    def _wake_followers(self, size: int) -> None:
        for woken in list(self.end_watchers.values()):
            woken(size)


def _fail(futures: Iterable[asyncio.Future[None]], error: Rejected) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
            future.exception()  # seen, also where nobody waits any more: else the loop logs each with a trace

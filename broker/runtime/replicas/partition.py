"""One partition of this broker: its replica, which decides, its log, and everyone who waits for them.

Rules:
* what an append, a sync or a change of leader means is the replica's decision (`ottla.broker.replication`); here it is carried out;
* who waits is woken by the append (or the fsync) that it waited for, never by looking again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.core.log_config import INT64_MAX
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.leadership import Registration, alone
from ottla.broker.replication.replica import COMMITTED, SYNC, Replica
from ottla.broker.replication.waits import Condition, Waits
from ottla.broker.storage.batch_check import check_produce_batch
from ottla.broker.storage.partition_log import AppendInfo, Origin, PartitionLog
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.record import SimpleRecord, build_batch

if TYPE_CHECKING:
    from ottla.broker.core.clock import Clock
    from ottla.broker.runtime.replicas.flusher import Flusher
    from ottla.broker.storage.txn_guard import VerificationGuard
    from ottla.broker.txns.txn_marker import TxnMarker

logger = logging.getLogger(__name__)
retries = logging.getLogger("ottla.broker.retries")
"""A log does not hold the retries that it absorbed, and a counter would die with a SIGKILL: who wants to count them reads this."""

Buffer = bytes | bytearray | memoryview
Woken = Callable[[int], None]

_FAR_FUTURE_MS = 2**62


class Partition:
    """`watchers` are called with the number of bytes that became readable (0: look again for another reason, such as deletion)."""

    __slots__ = (
        "_active",
        "_clock",
        "_flusher",
        "_unsynced_since_ms",
        "_waits",
        "index",
        "log",
        "removed",
        "replica",
        "topic",
        "watchers",
    )

    def __init__(self, log: PartitionLog, flusher: Flusher, clock: Clock) -> None:
        self.topic = log.topic
        self.index = log.partition
        self.log = log
        self.removed = False
        self.watchers: dict[object, Woken] = {}
        self._flusher = flusher
        self._clock = clock
        self._unsynced_since_ms = 0
        self._active = log.segments.active
        self._waits: Waits[asyncio.Future[None]] = Waits()
        self.replica = Replica(log_end=log.log_end_offset, synced=log.recovery_point, high_watermark=log.high_watermark)
        self._act(self.replica.lead(alone(log.leader_epoch), clock.mono_ms()))

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leadership that is now."""
        return self.replica.leader_epoch

    @property
    def leads(self) -> bool:
        """Whether this broker leads the partition."""
        return self.replica.leads

    def append(self, batch: Buffer, origin: Origin = Origin.CLIENT, guard: VerificationGuard | None = None) -> AppendInfo:
        """Append one batch now; raises Rejected, and then nothing was written. See `when` before acknowledging.

        A transaction's first batch needs the guard of `start_verification`.
        """
        log, replica = self.log, self.replica
        if not replica.leads:
            replica.check_leads()
        now_ms, epoch = self._clock.now_ms(), replica.leader_epoch
        if origin is Origin.CLIENT:
            checked = check_produce_batch(batch, config=log.config, now_ms=now_ms)
            info = log.append_parsed(checked.header, checked.unstamped, origin=origin, leader_epoch=epoch, now_ms=now_ms, guard=guard)
        else:
            info = log.append(batch, origin=origin, leader_epoch=epoch, now_ms=now_ms, guard=guard)
        if info.duplicate:
            retries.debug("Retry absorbed: %s-%d has offsets %d to %d already", self.topic, self.index, info.first_offset, info.last_offset)
        else:
            self._grew(len(batch))
        return info

    def append_records(self, records: Sequence[SimpleRecord], *, origin: Origin = Origin.COORDINATOR) -> AppendInfo:
        """Append records of a coordinator as one batch, stamped with the present time where they carry none."""
        now_ms = self._clock.now_ms()
        stamped = [SimpleRecord(r.key, r.value, now_ms if r.timestamp < 0 else r.timestamp, r.headers) for r in records]
        return self.append(build_batch(stamped), origin)

    def append_marker(self, marker: TxnMarker) -> AppendInfo:
        """End the producer's transaction here, whether or not one is open. Raises Rejected for a fenced producer or coordinator.

        All who wait look again: what the transaction held back has become readable, however little a marker weighs.
        """
        self.replica.check_leads()
        now_ms = self._clock.now_ms()
        batch = end_txn_marker(
            committed=marker.commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now_ms,
        )
        info = self.log.append(
            batch,
            origin=Origin.COORDINATOR,
            leader_epoch=self.replica.leader_epoch,
            now_ms=now_ms,
            transaction_version=marker.transaction_version,
        )
        self._grew(len(batch))
        self._wake(0)
        return info

    def when(self, condition: Condition, info: AppendInfo) -> asyncio.Future[None] | None:
        """A future that is done when the condition holds for the append, or None when it does now.

        It belongs to the present leadership: it fails with Rejected if that ends, or if the partition goes.
        """
        if info.last_offset < (self.replica.high_watermark if condition is Condition.COMMITTED else self.replica.own_end):
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.add(condition, info.last_offset, future)
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
        if elected:
            self._fail_waits(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leadership has begun"))
        self._act(effects)

    def follow(self, registration: Registration) -> None:
        """Metadata says that another replica leads: who waits is told so. What is older than is known is ignored."""
        if self.replica.is_stale(registration):
            return
        self.replica.follow(registration)
        self._fail_waits(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads now"))
        self._wake(0)

    def remove(self) -> None:
        """The partition is being deleted: whoever waits is told."""
        self.removed = True
        self._fail_waits(Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted"))
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

    def flush(self) -> asyncio.Future[None] | None:
        """Start syncing what is not on disk yet, unless that is under way; a future that is done with the sync.

        A sync that cannot begin is left to the next append or checkpoint; until then nobody is told that anything is on disk.
        """
        if not self.replica.sync_may_begin:
            return None
        try:
            sync = self._flusher.flush(self.log, self._synced)
        except OSError as error:
            logger.error("%s-%d cannot be synced now: %s", self.topic, self.index, error)
            return None
        self.replica.sync_began()
        self._unsynced_since_ms = 0
        return sync

    def _grew(self, size: int) -> None:
        log, replica = self.log, self.replica
        if log.config.flush_ms != INT64_MAX and not self._unsynced_since_ms:
            self._unsynced_since_ms = self._clock.mono_ms()
        now_ms = self._clock.mono_ms() if replica.shared else 0
        effects = replica.appended(log.log_end_offset, now_ms, log.config.flush_messages)
        if log.segments.active is not self._active:
            self._active = log.segments.active
            effects |= SYNC
        self._act(effects)
        if effects & COMMITTED and self.watchers:
            self._wake(size)

    def _synced(self, offset: int) -> None:
        effects = self.replica.sync_ended(offset, self._clock.mono_ms(), self.log.config.flush_messages)
        if not self.removed:
            self._act(effects)
            self._wake(0)

    def _act(self, effects: int) -> None:
        """Do what the replica has decided."""
        if effects & SYNC:
            self.flush()
        if effects & COMMITTED:
            self.log.advance_high_watermark(self.replica.high_watermark)
        if self._waits:
            self._release(Condition.COMMITTED, self.replica.high_watermark)
            self._release(Condition.ON_DISK, self.replica.own_end)

    def _release(self, condition: Condition, end: int) -> None:
        for future in self._waits.reached(condition, end):
            if not future.done():
                future.set_result(None)

    def _fail_waits(self, error: Rejected) -> None:
        for future in self._waits.drain():
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen, also where nobody waits any more: else the loop logs each with a trace

    def _wake(self, size: int) -> None:
        for woken in list(self.watchers.values()):
            woken(size)

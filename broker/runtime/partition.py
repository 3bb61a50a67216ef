"""One partition that this broker leads: its log, and everyone who waits for it.

Rules:
* the high watermark is the log's end, for there is one replica, except while records wait for an fsync that flush.messages asks for: then
  neither the high watermark nor an acknowledgement passes what is on disk;
* who waits is woken by the append (or the fsync) that it waited for, never by looking again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.core.log_config import INT64_MAX
from broker.core.rejected import Rejected
from broker.storage.batch_check import check_produce_batch
from broker.storage.partition_log import AppendInfo, Origin, PartitionLog
from protocol.error_codes import ErrorCode
from protocol.records.control import end_txn_marker
from protocol.records.record import SimpleRecord, build_batch

if TYPE_CHECKING:
    from broker.core.clock import Clock
    from broker.runtime.flusher import Flusher

logger = logging.getLogger(__name__)
retries = logging.getLogger("broker.retries")
"""A log does not hold the retries that it absorbed, and a counter would die with a SIGKILL: who wants to count them reads this."""

Buffer = bytes | bytearray | memoryview
Woken = Callable[[int], None]


class Partition:
    """`watchers` are called with the number of bytes that became readable (0: look again for another reason, such as deletion)."""

    __slots__ = (
        "_active",
        "_clock",
        "_flusher",
        "_flushing",
        "_synced_offset",
        "_unsynced_since_ms",
        "_waiting",
        "index",
        "log",
        "removed",
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
        self._flushing = False
        self._unsynced_since_ms = 0
        self._active = log.segments.active
        self._synced_offset = log.recovery_point
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        log.advance_high_watermark(log.log_end_offset)

    def append(self, batch: Buffer, origin: Origin = Origin.CLIENT, transaction_version: int = 0) -> AppendInfo:
        """Append one batch now; raises Rejected, and then nothing was written. See `when_durable` before acknowledging.

        `transaction_version` is what the producer of a transactional batch speaks.
        """
        log = self.log
        now_ms = self._clock.now_ms()
        if origin is Origin.CLIENT:
            checked = check_produce_batch(batch, config=log.config, now_ms=now_ms)
            info = log.append_parsed(
                checked.header,
                checked.unstamped,
                origin=origin,
                leader_epoch=log.leader_epoch,
                now_ms=now_ms,
                transaction_version=transaction_version,
            )
        else:
            info = log.append(batch, origin=origin, leader_epoch=log.leader_epoch, now_ms=now_ms, transaction_version=transaction_version)
        if info.duplicate:
            retries.debug("Retry absorbed: %s-%d has offsets %d to %d already", self.topic, self.index, info.first_offset, info.last_offset)
        else:
            self._grew(len(batch))
        return info

    def check_epoch(self, requested: int) -> None:
        """Raises Rejected when the client knows another leader epoch than ours (KIP-320); -1 asks for no check."""
        if requested == -1:
            return
        if requested < self.log.leader_epoch:
            raise Rejected(ErrorCode.FENCED_LEADER_EPOCH)
        if requested > self.log.leader_epoch:
            raise Rejected(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def append_records(self, records: Sequence[SimpleRecord], *, origin: Origin = Origin.COORDINATOR) -> AppendInfo:
        """Append records of a coordinator as one batch, stamped with the present time where they carry none."""
        now_ms = self._clock.now_ms()
        stamped = [SimpleRecord(r.key, r.value, now_ms if r.timestamp < 0 else r.timestamp, r.headers) for r in records]
        return self.append(build_batch(stamped), origin)

    def append_marker(self, producer_id: int, epoch: int, commit: bool, coordinator_epoch: int, transaction_version: int) -> AppendInfo:
        """End the producer's transaction here, whether or not one is open. Raises Rejected for a fenced producer or coordinator.

        All who wait look again: what the transaction held back has become readable, however little a marker weighs.
        """
        now_ms = self._clock.now_ms()
        log = self.log
        batch = end_txn_marker(
            committed=commit, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=now_ms
        )
        info = log.append(
            batch, origin=Origin.COORDINATOR, leader_epoch=log.leader_epoch, now_ms=now_ms, transaction_version=transaction_version
        )
        self._grew(len(batch))
        self._wake(0)
        return info

    def when_durable(self, info: AppendInfo) -> asyncio.Future[None] | None:
        """A future that is done when the append may be acknowledged, or None when that is now.

        Fails with Rejected if the partition goes.
        """
        if self.log.high_watermark > info.last_offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((info.last_offset, future))
        return future

    def remove(self) -> None:
        """The partition is being deleted: whoever waits is told."""
        self.removed = True
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted"))
        self._waiting.clear()
        self._wake(0)

    def flush_if_due(self) -> None:
        """Sync what has waited for flush.ms."""
        if self._unsynced_since_ms and self._clock.mono_ms() - self._unsynced_since_ms >= self.log.config.flush_ms:
            self.flush()

    def flush(self) -> asyncio.Future[None] | None:
        """Start syncing what is not on disk yet, unless that is under way; a future that is done with the sync.

        A sync that cannot begin is left to the next append or checkpoint; until then nobody is told that anything is on disk.
        """
        if self._flushing or self._synced_offset >= self.log.log_end_offset:
            return None
        try:
            sync = self._flusher.flush(self.log, self._synced)
        except OSError as error:
            logger.error("%s-%d cannot be synced now: %s", self.topic, self.index, error)
            return None
        self._flushing = True
        self._unsynced_since_ms = 0
        return sync

    def _grew(self, size: int) -> None:
        log = self.log
        if log.config.flush_ms != INT64_MAX and not self._unsynced_since_ms:
            self._unsynced_since_ms = self._clock.mono_ms()
        if log.segments.active is not self._active:
            self._active = log.segments.active
            self.flush()
        if log.config.flush_messages != INT64_MAX:
            due = log.log_end_offset - self._synced_offset >= log.config.flush_messages
            if due:
                self.flush()
            if due or self._flushing:
                return
        log.advance_high_watermark(log.log_end_offset)
        if self.watchers:
            self._wake(size)

    def _synced(self, offset: int) -> None:
        self._flushing = False
        self._synced_offset = max(self._synced_offset, offset)
        if self.removed:
            return
        log = self.log
        due = log.log_end_offset - offset >= log.config.flush_messages
        if due:
            self.flush()
        log.advance_high_watermark(offset if due else log.log_end_offset)
        waiting = self._waiting
        while waiting and waiting[0][0] < log.high_watermark:
            future = waiting.popleft()[1]
            if not future.done():
                future.set_result(None)
        self._wake(0)

    def _wake(self, size: int) -> None:
        for woken in list(self.watchers.values()):
            woken(size)

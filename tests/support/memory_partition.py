"""A partition in memory for tests of coordinators: it has real batches, its disk can fail, and the test decides when appends are
committed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.purgatory import Condition
from ottla.broker.storage.batch_check import check_size
from ottla.broker.storage.partition_log import Isolation, Origin
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.records.batch import read_header, stamp
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.wire import Buffer


@dataclass(frozen=True, slots=True)
class Appended:
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Read:
    records: bytes


class MemoryLog:
    """A log in memory. `read` returns whole batches, from the one with the offset to the end or to `high_watermark`."""

    def __init__(self) -> None:
        self.config = LogConfig()
        self.batches: list[bytes] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark: int | None = None

    def read(self, offset: int, max_bytes: int, *, isolation: Isolation, min_one_batch: bool) -> Read:
        wanted = [batch for batch in self.batches if read_header(batch).next_offset > offset]
        if isolation is not Isolation.LOG_END and self.high_watermark is not None:
            wanted = [batch for batch in wanted if read_header(batch).next_offset <= self.high_watermark]
        taken = wanted[:1] if min_one_batch else []
        for batch in wanted[1:]:
            if sum(map(len, taken)) + len(batch) > max_bytes:
                break
            taken.append(batch)
        return Read(b"".join(taken))


class MemoryPartition:
    """A stand-in for `ottla.broker.runtime.replicas.partition.Partition`. With `holds_back`, appends are committed only by
    `make_committed`."""

    topic = "__consumer_offsets"
    index = 0
    removed = False
    leads = True
    leader_epoch = 0

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.refusal: Rejected | None = None
        self.holds_back = False
        self._waiting: list[asyncio.Future[None]] = []

    def append(self, batch: Buffer, origin: Origin = Origin.CLIENT, guard: VerificationGuard | None = None) -> Appended:
        if self.refusal is not None:
            raise self.refusal
        check_size(len(batch), self.log.config)
        first = self.log.log_end_offset
        head, tail = stamp(batch, first, 0)
        whole = bytes(head) + bytes(tail)
        self.log.batches.append(whole)
        self.log.log_end_offset = read_header(whole).next_offset
        return Appended(first, self.log.log_end_offset - 1)

    def append_records(self, records: Sequence[SimpleRecord]) -> Appended:
        return self.append(build_batch(list(records)))

    def append_marker(self, marker: TxnMarker) -> Appended:
        batch = end_txn_marker(
            committed=marker.commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=1,
        )
        return self.append(batch, Origin.COORDINATOR)

    def when(self, condition: Condition, info: Appended) -> asyncio.Future[None] | None:
        return self.when_all_committed()

    def when_all_committed(self) -> asyncio.Future[None] | None:
        if not self.holds_back:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def make_committed(self) -> None:
        for future in self._waiting:
            future.set_result(None)
        self._waiting.clear()

    def lose(self, error: Rejected) -> None:
        """Fail all appends that are not committed yet with `error`, as a lost leadership does."""
        for future in self._waiting:
            future.set_exception(error)
        self._waiting.clear()

"""Runs a machine that lives in one partition: decide, append, apply, and reply when it is committed.

Rules that hold here, for groups and transactions alike:

* Append comes first and apply follows with no `await` between: what could not be written never happened, so there is nothing to roll back.
  The caller decides right before `run`, in the same turn of the loop, so no other operation comes between a decision and its effects.
* The records of one operation are one batch: all of them are in the log or none.
* A response is given when its records are committed. One that wrote nothing waits behind earlier writes that are not: what it tells must
  not be lost. Both fail with the leadership in which they were written, and nothing is written in a later one (KAFKA-20634). What takes too
  long is answered with an error, and may be committed yet.
* Reading the log back, to its end, calls the same `apply`, and `end_transaction` for each marker: what is not committed yet is decided on,
  and told to nobody. A record that cannot be read is skipped with a warning that names it: refusing to start would take all other groups or
  transactions down with it. A damaged batch ends the reading of its partition, which is not served: nobody knows what it said.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.broker.core import limits
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.waits import Condition
from ottla.broker.storage.partition_log import Isolation, Origin
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.control import ControlType, parse_marker
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records

if TYPE_CHECKING:
    from ottla.broker.core.timers import TimerHandle
    from ottla.broker.runtime.replicas.partition import Partition
    from ottla.broker.storage.txn_guard import VerificationGuard
    from ottla.broker.txns.txn_marker import TxnMarker

Buffer = bytes | bytearray | memoryview
RecordT = TypeVar("RecordT")
RecordT_contra = TypeVar("RecordT_contra", contravariant=True)
ResponseT = TypeVar("ResponseT")
MachineT = TypeVar("MachineT", bound="Machine[Any]")
Durable = asyncio.Future[None] | None
"""Done when what was appended may be acknowledged; None when that is already so. Fails with Rejected where it is lost."""

Overdue = Callable[[Callable[[], None]], "TimerHandle"]
"""Has this called when an answer has waited for long enough."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

logger = logging.getLogger(__name__)


def as_coordinator(error: Rejected) -> Rejected:
    """What a client of a coordinator is told when the log refuses a record (KAFKA CoordinatorOperationExceptionHelper)."""
    return Rejected(_APPEND_ERRORS.get(error.code, error.code), error.message)


class Machine(Protocol[RecordT_contra]):
    """State that changes by records alone."""

    def apply(self, record: RecordT_contra, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """The record is in the log, as part of an open transaction if a producer id is given."""
        ...

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A marker of this producer is in the log."""
        ...


class Life(Enum):
    """Whether a shard may be asked."""

    LOADING = "loading"
    SERVING = "serving"
    UNREADABLE = "unreadable"
    """A batch of its partition is damaged: nobody knows what it said."""
    RESIGNED = "resigned"


class Shard(Generic[RecordT, MachineT]):
    """One machine and the partition that is its memory, for as long as this broker leads the partition in one leader epoch.

    `encode` gives a record's key and value, `decode` None for a kind it does not know. Without `overdue` answers wait as long as they must.
    """

    def __init__(
        self,
        partition: Partition,
        machine: MachineT,
        encode: Callable[[RecordT], tuple[bytes, bytes | None]],
        decode: Callable[[Buffer | None, Buffer | None], RecordT | None],
        overdue: Overdue | None = None,
    ) -> None:
        self.partition = partition
        self.machine = machine
        self.epoch = partition.leader_epoch
        """The leader epoch in which this shard was elected. Markers carry it as coordinator epoch."""
        self.life = Life.LOADING
        self._encode = encode
        self._decode = decode
        self._overdue = overdue
        self._last_write: Durable = None

    def run(self, effects: Effects[RecordT, ResponseT]) -> ResponseT | asyncio.Future[ResponseT]:
        """Carry out what was decided. The response, or a future of it where it has to wait; raises Rejected if the log refuses the
        records."""
        return self.after(self.append(effects.records), effects.response)

    def append(self, records: Sequence[RecordT]) -> Durable:
        """Write and apply the records; with none, only say what a response has to wait for. Raises Rejected, and then nothing changed."""
        if records:
            pairs = [self._encode(record) for record in records]
            try:
                self._check_epoch()
                info = self.partition.append_records([SimpleRecord(key, value) for key, value in pairs])
            except Rejected as error:
                raise as_coordinator(error) from error
            for offset, record in enumerate(records, info.first_offset):
                self.machine.apply(record, offset)
            self._last_write = self.partition.when(Condition.COMMITTED, info)
        if self._last_write is not None and self._last_write.done():
            self._last_write = None
        return self._last_write

    def run_transactional(
        self,
        effects: Effects[RecordT, ResponseT],
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> ResponseT | asyncio.Future[ResponseT]:
        """Write the records as one batch of an open transaction. They take effect when its marker is written (`append_marker`).

        The first of them needs the guard of `Partition.start_verification`.
        """
        pairs = [self._encode(record) for record in effects.records]
        batch = build_batch(
            [SimpleRecord(key, value, now_ms) for key, value in pairs],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=True,
        )
        try:
            self._check_epoch()
            info = self.partition.append(batch, Origin.COORDINATOR, guard)
        except Rejected as error:
            raise as_coordinator(error) from error
        for offset, record in enumerate(effects.records, info.first_offset):
            self.machine.apply(record, offset, producer_id)
        self._last_write = self.partition.when(Condition.COMMITTED, info)
        return self.after(self._last_write, effects.response)

    def append_marker(self, marker: TxnMarker) -> Durable:
        """End the producer's transaction in this partition, and with it what it left pending. Raises Rejected; then nothing changed."""
        self._check_epoch()
        info = self.partition.append_marker(marker)
        self.machine.end_transaction(marker.producer_id, commit=marker.commit)
        self._last_write = self.partition.when(Condition.COMMITTED, info)
        return self._last_write

    def after(
        self, durable: Durable, response: ResponseT, lost: Callable[[Rejected], ResponseT] | None = None
    ) -> ResponseT | asyncio.Future[ResponseT]:
        """The response, or a future of it where it has to wait. What is lost meanwhile, or takes too long, is answered by `lost`, or fails
        with Rejected.

        Several responses may wait for one write: none of them, cancelled, must cancel it for the others.
        """
        if durable is None:
            return response
        result: asyncio.Future[ResponseT] = asyncio.get_running_loop().create_future()

        def fail(error: Rejected) -> None:
            if result.done():
                return
            if lost is not None:
                result.set_result(lost(as_coordinator(error)))
            else:
                result.set_exception(as_coordinator(error))

        timer = None if self._overdue is None else self._overdue(lambda: fail(Rejected(ErrorCode.REQUEST_TIMED_OUT)))

        def release(done: asyncio.Future[None]) -> None:
            if timer is not None:
                timer.cancel()
            error = failure_of(done)
            if error is not None:
                fail(error)
            elif not result.done():
                result.set_result(response)

        durable.add_done_callback(release)
        return result

    def _check_epoch(self) -> None:
        """What was decided in one leadership is not written in another."""
        if self.life is Life.RESIGNED or self.epoch != self.partition.leader_epoch:
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"leader epoch {self.epoch} is over")

    async def load(self, chunk_bytes: int) -> None:
        """Read the whole log back; other work gets its turn after each chunk. Raises Rejected when it cannot be read.

        What it tells waits until all of that is committed. A shard that resigns meanwhile stops where it is.
        """
        log = self.partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset and self.life is Life.LOADING:
            chunk = log.read(offset, chunk_bytes, isolation=Isolation.LOG_END, min_one_batch=True).records
            try:
                offset = max(await self._load_chunk(bytes(chunk)), offset + 1)
            except RecordsError as damage:
                raise Rejected(ErrorCode.CORRUPT_MESSAGE, f"a batch at offset {offset} or soon after is damaged: {damage}") from damage
            if offset < log.log_end_offset:
                await asyncio.sleep(0)
        if self.life is Life.LOADING:
            self._last_write = self.partition.when_all_committed()

    async def _load_chunk(self, chunk: bytes) -> int:
        next_offset = 0
        for pos, header in split_batches(chunk):
            batch = chunk[pos : pos + header.size_bytes]
            next_offset = header.next_offset
            if header.is_control:
                if header.record_count:
                    marker = parse_marker(batch)
                    if marker.ends_transaction:
                        self.machine.end_transaction(header.producer_id, commit=marker.type is ControlType.COMMIT)
                continue
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            for count, stored in enumerate(iter_records(batch), 1):
                self._load_record(stored.key, stored.value, header.base_offset + stored.offset_delta, producer_id)
                if count % limits.LOADED_AT_ONCE_RECORDS == 0:
                    await asyncio.sleep(0)
                    if self.life is not Life.LOADING:
                        return next_offset
        return next_offset

    def _load_record(self, key: Buffer | None, value: Buffer | None, offset: int, producer_id: int) -> None:
        partition = self.partition
        try:
            record = self._decode(key, value)
        except ProtocolError as error:
            logger.warning(
                "Skipping the record at offset %d of %s-%d, which cannot be read: %s", offset, partition.topic, partition.index, error
            )
            return
        if record is None:
            logger.warning("Skipping the record at offset %d of %s-%d: its kind is not known", offset, partition.topic, partition.index)
            return
        self.machine.apply(record, offset, producer_id)


def failure_of(done: asyncio.Future[None]) -> Rejected | None:
    """Why a write that was waited for came to nothing; None when it is committed."""
    if done.cancelled():
        return Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    error = done.exception()
    return error if error is None or isinstance(error, Rejected) else Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))

"""Runs a state machine on one partition: decide, append, apply, and respond when committed.

Invariants, for groups, transactions and share state alike:

* Append comes first and apply follows without an `await` in between, so a failed append changes nothing and needs no rollback. The caller
  decides right before `run`, in the same turn of the event loop, so no other operation comes between a decision and its effects.
* The records of one operation are one batch: all of them are in the log or none. An operation whose batch exceeds max.message.bytes fails.
* A response waits until its records are committed. A response without records waits for earlier uncommitted writes, because it may reveal
  them. Pending responses fail when the leader epoch ends in which they were decided, and no decision is written in a later epoch
  (KAFKA-20634). A response that waits too long fails with REQUEST_TIMED_OUT; its records may still be committed.
* Loading applies every record of the log with the same `apply`, and every transaction marker with `end_transaction`. Uncommitted records
  are applied too, but no response reveals them before they are committed. An undecodable record is skipped with a warning: refusing to
  start would take down all other groups or transactions. A corrupt batch ends the loading, and the partition is not served, because its
  contents are unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from ottla.broker.core import limits
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import TimerHandle
from ottla.broker.replication.purgatory import Condition
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.storage.partition_log import Isolation, Origin
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import HEADER_BYTES, split_batches
from ottla.protocol.records.control import ControlType, parse_marker
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.records.record import RECORD_OVERHEAD_MAX, SimpleRecord, build_batch, iter_records
from ottla.protocol.wire import Buffer

RecordT = TypeVar("RecordT")
RecordT_contra = TypeVar("RecordT_contra", contravariant=True)
ResponseT = TypeVar("ResponseT")
MachineT = TypeVar("MachineT", bound="Machine[Any]")
Committed = asyncio.Future[None] | None
"""A future that completes when a coordinator's records are committed, so that its response may be sent; None if they are committed already.
The future fails with Rejected if the records may be lost, because the leadership of the partition has ended."""

ScheduleTimeout = Callable[[Callable[[], None]], "TimerHandle"]
"""A function that schedules a callback after the coordinator's write timeout. The callback fails a response whose records are not committed
by then."""

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
    """Return the error that a coordinator reports to its clients when an append to its partition's log has failed with `error` (Kafka's
    CoordinatorOperationExceptionHelper).
    """
    return Rejected(_APPEND_ERRORS.get(error.code, error.code), error.message)


class Machine(Protocol[RecordT_contra]):
    """The interface of a coordinator's state machine (of groups, transactions or share state). Only applied records and transaction markers
    change its state.
    """

    def apply(self, record: RecordT_contra, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record, which is at `record_offset` in the log. With a `producer_id` the record belongs to that producer's open
        transaction."""
        ...

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction marker: make the records of the producer's open transaction visible, or drop them."""
        ...


class ShardState(Enum):
    """The state of a shard (one partition's state machine): whether its partition is loaded and served."""

    LOADING = "loading"
    SERVING = "serving"
    UNREADABLE = "unreadable"
    """A batch of the partition is corrupt, so its contents are unknown."""
    CLOSED = "closed"
    """The shard's leader epoch has ended, or the broker is stopping. A closed shard is never used again: the next epoch gets a new one."""


class Shard(Generic[RecordT, MachineT]):
    """The state machine of one partition of an internal topic, such as all groups of a partition of `__consumer_offsets`, for one leader
    epoch of this broker.

    `encode` returns a record's key and value; `decode` returns None for an unknown record type. `schedule_timeout` schedules a callback
    that fails a response which waits too long; without it a response may wait forever.
    """

    def __init__(
        self,
        partition: Partition,
        machine: MachineT,
        encode: Callable[[RecordT], tuple[bytes, bytes | None]],
        decode: Callable[[Buffer | None, Buffer | None], RecordT | None],
        schedule_timeout: ScheduleTimeout | None = None,
    ) -> None:
        self.partition = partition
        self.machine = machine
        self.epoch = partition.leader_epoch
        """The leader epoch for which this shard was created. Transaction markers carry it as coordinator epoch."""
        self.state = ShardState.LOADING
        self._encode = encode
        self._decode = decode
        self._schedule_timeout = schedule_timeout
        self._last_write: Committed = None

    def run(self, effects: Effects[RecordT, ResponseT]) -> ResponseT | asyncio.Future[ResponseT]:
        """Append and apply the records of `effects`, a decision of the state machine. Return its response, or a future of the response that
        completes when the records are committed. Raises Rejected if the append fails; then nothing has changed.
        """
        return self.respond_after(self.append(effects.records), effects.response)

    def append(self, records: Sequence[RecordT]) -> Committed:
        """Append and apply the records. Return a future that completes when these and all earlier records are committed, or None if they
        are committed already. Raises Rejected if the append fails; then nothing has changed.
        """
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

    def append_independently(self, records: Iterable[RecordT], max_records: int) -> None:
        """Append and apply records that need not be written together (Kafka's non-atomic writes of the coordinator), in batches of at most
        `max_records` records and `max.message.bytes`. Raises Rejected if an append fails; then the later batches are not written.
        """
        max_bytes = self.partition.log.config.max_message_bytes
        batch: list[RecordT] = []
        size = HEADER_BYTES
        for record in records:
            key, value = self._encode(record)
            added = RECORD_OVERHEAD_MAX + len(key) + len(value or b"")
            if batch and (len(batch) == max_records or size + added > max_bytes):
                self.append(batch)
                batch, size = [], HEADER_BYTES
            batch.append(record)
            size += added
        self.append(batch)

    def run_transactional(
        self,
        effects: Effects[RecordT, ResponseT],
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> ResponseT | asyncio.Future[ResponseT]:
        """Append the records of `effects`, a decision of the state machine, as one batch of a producer's transaction. They become visible
        when the transaction commits (`append_marker`). Return the decision's response, or a future of the response that completes when the
        records are committed. Raises Rejected if the append fails; then nothing has changed.

        `now_ms` is the timestamp of the records. A transaction's first batch needs `guard`, the proof that the transaction's coordinator
        has verified this partition (`Partition.start_verification`).
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
        return self.respond_after(self._last_write, effects.response)

    def append_marker(self, marker: TxnMarker) -> Committed:
        """Write the marker that ends the producer's transaction in this partition. Return a future that is done when the marker is
        committed, or None if it is committed already. Raises Rejected if the marker cannot be written; then nothing has changed.
        """
        self._check_epoch()
        info = self.partition.append_marker(marker)
        self.machine.end_transaction(marker.producer_id, commit=marker.commit)
        self._last_write = self.partition.when(Condition.COMMITTED, info)
        return self._last_write

    def respond_after(
        self, committed: Committed, response: ResponseT, lost: Callable[[Rejected], ResponseT] | None = None
    ) -> ResponseT | asyncio.Future[ResponseT]:
        """Return the response if `committed` is None, which means that the write it depends on is committed already. Otherwise return a
        future that returns the response when `committed` completes.

        If `committed` fails or takes too long, the future returns `lost(error)`; without `lost` it raises the error, a Rejected. Cancelling
        the future does not cancel `committed`, because other responses may wait for the same write.
        """
        if committed is None:
            return response
        result: asyncio.Future[ResponseT] = asyncio.get_running_loop().create_future()

        def fail(error: Rejected) -> None:
            if result.done():
                return
            if lost is not None:
                result.set_result(lost(as_coordinator(error)))
            else:
                result.set_exception(as_coordinator(error))

        timer = None if self._schedule_timeout is None else self._schedule_timeout(lambda: fail(Rejected(ErrorCode.REQUEST_TIMED_OUT)))

        def release(done: asyncio.Future[None]) -> None:
            if timer is not None:
                timer.cancel()
            error = failure_of(done)
            if error is not None:
                fail(error)
            elif not result.done():
                result.set_result(response)

        committed.add_done_callback(release)
        return result

    def _check_epoch(self) -> None:
        """Raise Rejected(NOT_LEADER_OR_FOLLOWER) if the leader epoch of this shard has ended: a decision of one epoch must not be written
        in another.
        """
        if self.state is ShardState.CLOSED or self.epoch != self.partition.leader_epoch:
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"leader epoch {self.epoch} is over")

    async def load(self, chunk_bytes: int) -> None:
        """Read the partition's whole log in chunks of `chunk_bytes` and apply its records; other work runs after each chunk. Raises
        Rejected(CORRUPT_MESSAGE) for a corrupt log.

        Responses wait until all records that were read are committed. Loading stops if another broker becomes leader meanwhile.
        """
        log = self.partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset and self.state is ShardState.LOADING:
            chunk = log.read(offset, chunk_bytes, isolation=Isolation.LOG_END, min_one_batch=True).records
            try:
                offset = max(await self._load_chunk(bytes(chunk)), offset + 1)
            except RecordsError as damage:
                raise Rejected(ErrorCode.CORRUPT_MESSAGE, f"a batch at or after offset {offset} is corrupt: {damage}") from damage
            if offset < log.log_end_offset:
                await asyncio.sleep(0)
        if self.state is ShardState.LOADING:
            self._last_write = self.partition.when_all_committed()

    async def _load_chunk(self, chunk: bytes) -> int:
        """Apply the batches in `chunk`, over several turns of the event loop. Return the offset that follows the last batch in `chunk`. If
        the shard was closed meanwhile, stop, and return the offset that follows the batch in which the loading has stopped."""
        next_offset = 0
        for count, next_offset in enumerate(self._apply_batches(chunk), 1):  # noqa: B007 # it is returned
            if count % limits.LOADED_AT_ONCE_STEPS == 0:
                await asyncio.sleep(0)
                if self.state is not ShardState.LOADING:
                    break
        return next_offset

    def _apply_batches(self, chunk: bytes) -> Iterator[int]:
        """Apply the batches in `chunk`. After each record, and after each batch, yield the offset that follows the batch."""
        for pos, header in split_batches(chunk):
            batch = chunk[pos : pos + header.size_bytes]
            if not header.is_control:
                producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
                for stored in iter_records(batch):
                    self._load_record(stored.key, stored.value, header.base_offset + stored.offset_delta, producer_id)
                    yield header.next_offset
            elif header.record_count:
                marker = parse_marker(batch)
                if marker.ends_transaction:
                    self.machine.end_transaction(header.producer_id, commit=marker.type is ControlType.COMMIT)
            yield header.next_offset

    def _load_record(self, key: Buffer | None, value: Buffer | None, offset: int, producer_id: int) -> None:
        partition = self.partition
        try:
            record = self._decode(key, value)
        except ProtocolError as error:
            logger.warning(
                "Skipping the record at offset %d of %s-%d, which cannot be decoded: %s", offset, partition.topic, partition.index, error
            )
            return
        if record is None:
            logger.warning("Skipping the record at offset %d of %s-%d: its type is unknown", offset, partition.topic, partition.index)
            return
        self.machine.apply(record, offset, producer_id)


def failure_of(done: asyncio.Future[None]) -> Rejected | None:
    """Return the error with which a write has failed, or None if its records are committed. `done` is the completed future of the write."""
    if done.cancelled():
        return Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    error = done.exception()
    return error if error is None or isinstance(error, Rejected) else Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))

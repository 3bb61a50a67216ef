"""The records view: the records of a partition, their producers, and the outcome of their transactions.

Rules inside:
- The view reads this broker's replica up to the log end offset, committed or not.
- The bytes of the log, and its open and aborted transactions, are read in one turn of the event loop, so that they agree. A thread decodes
  the batches.
- Records are untrusted: the number of records in a batch, the decompressed size and the time to decode them are limited.
- A page that was requested relative to the end of the log always contains the newest record, however few records fit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import thread_time
from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from ottla.broker.admin.console.log_ranges import read_range, read_tail
from ottla.broker.admin.console.rendering import RenderedBytes, render
from ottla.broker.admin.console.schemas import AnySchema, Schemas
from ottla.broker.admin.console.topics import partition_of
from ottla.broker.admin.console.transactions import transactions_here
from ottla.broker.app import Broker
from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.producer_state import NO_OFFSET
from ottla.protocol.records.batch import BatchHeader, crc_ok, split_batches
from ottla.protocol.records.control import parse_marker
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.records.record import Header, Record, iter_records
from ottla.protocol.records.sequence import increment_sequence

READ_BYTES: Final = 512 << 10
"""The number of bytes of the log that one response reads. The first batch is read whole, even if it is larger."""
OPENED_BYTES: Final = 16 << 20
"""The maximum decompressed size in bytes of a batch whose records are decoded."""
OPENED_RECORDS: Final = 250_000
"""The maximum number of records of a batch whose records are decoded. Counting that many takes about 25 ms, during which the thread that
decodes holds the GIL and so blocks the event loop."""
SHOWN_BYTES: Final = 2 << 20
"""The maximum number of bytes of keys, values and headers in one response; further records are left to the next page."""
RESPONSE_CPU_S: Final = 0.25
"""The maximum CPU time in seconds for one response; further records are left to the next page. This is needed because a value can be
crafted so that decoding it takes long."""
ROWS_MAX: Final = 200
HEADERS_MAX: Final = 50
VALUE_BYTES_MAX: Final = 256 << 10
_KEY_BYTES: Final = 1024

TransactionOutcome = Literal["none", "open", "committed", "aborted"]


class HeaderView(BaseModel):
    """One header of a record."""

    name: str
    value: RenderedBytes


class RecordRow(BaseModel):
    """One record, or a control batch, which ends a transaction and is shown without key and value. In every number, -1 means that there is
    no value."""

    offset: int
    timestamp: int = Field(description="milliseconds since 1970-01-01 UTC")
    key: RenderedBytes
    value: RenderedBytes
    headers: list[HeaderView] = Field(description=f"the first {HEADERS_MAX} headers")
    batch: int = Field(description="the batch's base offset")
    batch_records: int
    codec: str
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional_id: str | None = Field(description="the producer's, if this broker coordinates it")
    fate: TransactionOutcome = Field(description="`none`: the record is not part of a transaction")
    control: str | None = Field(default=None, description="`commit` or `abort`, if this is a transaction marker")
    problem: str | None = Field(default=None, description="why the batch cannot be opened")


class RecordRows(BaseModel):
    """Records in log order, and the log's offsets at the time of reading. `next_offset` is the first offset of the next page; it equals
    `end` if there is no next page."""

    start: int
    last_stable: int
    high_watermark: int
    end: int
    next_offset: int
    records: list[RecordRow]


@dataclass(frozen=True, slots=True)
class TransactionOutcomes:
    """The transactions in a range of a log, by producer id: `open` has the first offset of the producer's open transaction, `aborted` the
    first and last offset of each of its aborted transactions."""

    open: dict[int, int]
    aborted: dict[int, list[tuple[int, int]]]

    def of(self, header: BatchHeader) -> TransactionOutcome:
        """Return the outcome of the transaction that a batch belongs to: "open", "aborted" or "committed"; "none" if it belongs to none."""
        if not header.is_transactional:
            return "none"
        begun = self.open.get(header.producer_id)
        if begun is not None and header.base_offset >= begun:
            return "open"
        spans = self.aborted.get(header.producer_id, ())
        return "aborted" if any(first <= header.base_offset <= last for first, last in spans) else "committed"


def transaction_outcomes(log: PartitionLog, offset: int, writers: Iterable[int]) -> TransactionOutcomes:
    """Return the open transactions of the producers with the ids `writers`, and the transactions that were aborted at or after `offset`.
    Raises OSError, or ValueError if a transaction index cannot be read."""
    open_ = {}
    for producer_id in writers:
        entry = log.producer_state.get(producer_id)
        if entry is not None and entry.current_txn_first_offset != NO_OFFSET:
            open_[producer_id] = entry.current_txn_first_offset
    aborted: dict[int, list[tuple[int, int]]] = {}
    for segment in log.segments.from_offset(offset):
        found, complete = segment.txn_index.collect(offset, log.log_end_offset)
        for producer_id, first_offset, last_offset, _ in found:
            aborted.setdefault(producer_id, []).append((first_offset, last_offset))
        if complete:
            break
    return TransactionOutcomes(open_, aborted)


def _read(log: PartitionLog, offset: int) -> tuple[bytes, int, TransactionOutcomes]:
    """Read whole batches of the log from `offset` on; return them, the first offset to show, and the outcomes of their transactions.

    A negative `offset` counts from the end of the log. If the batches from there on exceed READ_BYTES, the oldest are left out, and the
    first offset to show is that of the first batch returned. If the log or a transaction index cannot be read, raises Rejected,
    RecordsError, OSError or ValueError.
    """
    start, end = log.log_start_offset, log.log_end_offset
    wanted = min(max(offset if offset >= 0 else end + offset, start), end)
    data, headers = read_range(log, wanted, READ_BYTES) if offset >= 0 else read_tail(log, end - wanted, READ_BYTES)
    wanted = max(wanted, headers[0].base_offset) if headers else wanted
    return data, wanted, transaction_outcomes(log, wanted, {header.producer_id for header in headers if header.is_transactional})


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    """How records are displayed: the number of records (`limit`), the bytes of each value, and the schemas that decode keys and values."""

    limit: int
    value_bytes: int
    key: AnySchema | None
    value: AnySchema | None

    def key_of(self, data: bytes | None) -> RenderedBytes:
        """Return a record's key as it is displayed: at most `value_bytes` and `_KEY_BYTES` long."""
        return self._rendered(self.key, data, min(self.value_bytes, _KEY_BYTES))

    def value_of(self, data: bytes | None) -> RenderedBytes:
        """Return a record's value as it is displayed: at most `value_bytes` long."""
        return self._rendered(self.value, data, self.value_bytes)

    @staticmethod
    def _rendered(schema: AnySchema | None, data: bytes | None, max_bytes: int) -> RenderedBytes:
        decoded = None if schema is None or data is None else schema.render(bytes(data), max_bytes)
        return render(data, max_bytes) if decoded is None else decoded


def records_router(broker: Broker, schemas: Schemas) -> APIRouter:
    """Return the HTTP routes of the console's records view of one broker."""
    router = APIRouter()

    @router.get("/records")
    async def records(
        topic: str,
        partition: Annotated[int, Query(ge=0)],
        offset: Annotated[int, Query(description="the first offset to show; a negative one counts from the end of the log")] = -50,
        limit: Annotated[int, Query(ge=1, le=ROWS_MAX)] = 50,
        value_bytes: Annotated[int, Query(ge=0, le=VALUE_BYTES_MAX, description="bytes of each value, at most")] = 1024,
    ) -> RecordRows:
        """The records of a partition's log on this broker, from an offset on; 404 if this broker has no replica of the partition."""
        here = partition_of(broker, topic, partition)
        if here is None:
            raise HTTPException(404, f"{topic}-{partition} has no replica on this broker")
        log = here.log
        try:
            data, wanted, known = _read(log, offset)
        except (Rejected, RecordsError, OSError, ValueError) as error:
            raise HTTPException(503, f"the log of {topic}-{partition} cannot be read: {error}") from error
        answer = RecordRows(
            start=log.log_start_offset,
            last_stable=log.last_stable_offset,
            high_watermark=log.high_watermark,
            end=log.log_end_offset,
            next_offset=log.log_end_offset,
            records=[],
        )
        options = DisplayOptions(limit, value_bytes, schemas.of(topic, "key"), schemas.of(topic, "value"))
        await asyncio.to_thread(_open, answer, data, wanted, known, options, newest_first=-limit <= offset < 0)
        writers = {row.producer_id for row in answer.records if row.fate != "none" or row.control}
        if writers:
            names = {txn.producer_id: txn.transactional_id for txn in transactions_here(broker) if txn.producer_id in writers}
            for row in answer.records:
                row.transactional_id = names.get(row.producer_id)
        return answer

    return router


_Found = tuple[BatchHeader, bytes, Record | None, str | None]
"""The header of a batch, its bytes (only for a control batch, otherwise empty), one of its records, and the reason if the batch cannot be
decoded. The record is None for a control batch and for a batch that cannot be decoded."""


def _open(answer: RecordRows, data: bytes, offset: int, known: TransactionOutcomes, options: DisplayOptions, *, newest_first: bool) -> None:
    """Fill the response `answer` with rows for the records of the batches in `data`, from `offset` on. If not all rows fit, the last ones
    are left out, or with `newest_first` the oldest ones. Raises HTTPException (503) if the batches are damaged."""
    batches: list[tuple[int, BatchHeader]] = []
    try:
        for position, header in split_batches(data):
            batches.append((position, header))
            answer.next_offset = header.next_offset
    except RecordsError as error:
        raise HTTPException(503, f"the log is damaged after offset {answer.next_offset}: {error}") from error
    left, until = SHOWN_BYTES, thread_time() + RESPONSE_CPU_S
    for each in _in_order(data, batches, offset, newest_first=newest_first):
        if len(answer.records) == options.limit or (answer.records and (left < 0 or thread_time() > until)):
            answer.next_offset = answer.next_offset if newest_first else _offset_of(each)
            break
        row = _row_of(each, known, options)
        answer.records.append(row)
        left -= len(row.key.text) + len(row.value.text) + sum(len(each.name) + len(each.value.text) for each in row.headers)
    if newest_first:
        answer.records.reverse()


def _in_order(data: bytes, batches: list[tuple[int, BatchHeader]], offset: int, *, newest_first: bool) -> Iterator[_Found]:
    """Yield the records of all batches from `offset` on, newest first with `newest_first`. Each batch is decoded only when its first record
    is needed."""
    for position, header in reversed(batches) if newest_first else batches:
        found = _opened(data[position : position + header.size_bytes], header, offset)
        yield from reversed(list(found)) if newest_first else found


def _opened(batch: bytes, header: BatchHeader, offset: int) -> Iterator[_Found]:
    """Yield the records of one batch from `offset` on. Yield one entry without a record for a control batch, and for a batch or the rest of
    one that cannot be decoded; the entry's last element is then the reason."""
    if header.is_control:
        yield header, batch, None, None
    elif not crc_ok(batch, header):
        yield header, b"", None, "its checksum is wrong"
    elif header.record_count > OPENED_RECORDS:
        yield header, b"", None, f"the batch has {header.record_count} records; the console opens batches of at most {OPENED_RECORDS}"
    else:
        try:
            for record in iter_records(batch, OPENED_BYTES, from_offset=offset, headers_max=HEADERS_MAX):
                yield header, b"", record, None
        except RecordsError as error:
            yield header, b"", None, str(error)


def _offset_of(found: _Found) -> int:
    header, _, record, _ = found
    return header.base_offset if record is None else record.offset


def _row_of(found: _Found, known: TransactionOutcomes, options: DisplayOptions) -> RecordRow:
    header, batch, record, problem = found
    outcome = known.of(header)
    if record is None:
        return _row(
            header,
            outcome,
            header.base_offset,
            header.max_timestamp,
            control=_marker(batch) if batch and header.record_count else None,
            problem=problem,
        )
    sequence = -1 if header.base_sequence < 0 else increment_sequence(header.base_sequence, record.offset_delta)
    row = _row(header, outcome, record.offset, record.timestamp, sequence=sequence)
    row.key, row.value = options.key_of(record.key), options.value_of(record.value)
    row.headers = [_header(each, options.value_bytes) for each in record.headers]
    return row


def _marker(batch: bytes) -> str:
    try:
        kind = parse_marker(batch).type
    except RecordsError:
        return "damaged"
    return "unknown" if kind is None else kind.name.lower().replace("_", " ")


def _header(header: Header, value_bytes: int) -> HeaderView:
    name, value = header
    return HeaderView(name=name[:_KEY_BYTES].encode(errors="replace").decode(), value=render(value, min(value_bytes, _KEY_BYTES)))


def _codec(header: BatchHeader) -> str:
    try:
        return header.codec.name.lower()
    except RecordsError:
        return "unknown"


def _row(
    header: BatchHeader,
    outcome: TransactionOutcome,
    offset: int,
    timestamp: int,
    *,
    sequence: int = -1,
    control: str | None = None,
    problem: str | None = None,
) -> RecordRow:
    return RecordRow(
        offset=offset,
        timestamp=timestamp,
        key=render(None, 0),
        value=render(None, 0),
        headers=[],
        batch=header.base_offset,
        batch_records=header.record_count,
        codec=_codec(header),
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        sequence=sequence,
        transactional_id=None,
        fate=outcome,
        control=control,
        problem=problem,
    )

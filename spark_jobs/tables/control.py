"""Reads the levels (kinds of rows) `markers`, `transactions` and `offsets`: control batches, and the decoded records of Kafka's internal
topics.

Invariants:
- If a batch is damaged, none of its rows are returned; level `batches` reports the damage.
- A record in an unknown format, which a newer broker may have written, is left out; the other records of its batch are returned. So is a
  record with more than ELEMENTS_MAX array elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.protocol.errors import ProtocolError
from ottla.protocol.offset_log import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from ottla.protocol.records.batch import CONTROL, BatchHeader, read_header
from ottla.protocol.records.control import parse_marker
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.records.record import Record, iter_section
from ottla.protocol.schema import decode, read_prefix
from ottla.protocol.transaction_log import TRANSACTION_KEY, TRANSACTION_STATES, TransactionLogKey, TransactionLogValue
from ottla.spark_jobs.columns import MARKER_COLUMNS, OFFSET_COLUMNS, TRANSACTION_COLUMNS
from ottla.spark_jobs.logs import read_runs
from ottla.spark_jobs.segment_reader import Part, Run, crc_matches
from ottla.spark_jobs.tables.build import Numbers, by_column, to_arrow, wanted_rows
from ottla.spark_jobs.tables.filters import Filters
from ottla.spark_jobs.tables.records import open_batches

ELEMENTS_MAX: Final = 500_000
"""The most elements that all arrays of one record of an internal topic may have in total. A record of 1 MiB, the default of
max.message.bytes, holds at most 350,000. Without a limit, a record of 16 MiB, 15 KiB compressed, took 400 MB.
"""

Row = tuple[Any, ...]
Decode = Callable[[int, BatchHeader, Record], Sequence[Row]]
"""A function that decodes one record of an internal topic. Its arguments are the batch's position in bytes, the batch's header and the
record. It returns the record's rows, of which there may be several. It raises ProtocolError if it cannot decode the record."""


def marker_rows(part: Part, schema: pa.Schema, filters: Filters) -> Iterator[pa.RecordBatch]:
    """Yield one row per control batch of a part of a segment (see MARKER_COLUMNS). Damaged batches have no row."""
    for run, keep in _kept(part, filters, control=True):
        rows = []
        for row, right in zip(keep.tolist(), crc_matches(run, keep.tolist()), strict=True):
            if right:
                rows += _marker_row(run, row)
        yield from _arrow(part, schema, tuple(MARKER_COLUMNS), rows, filters)


def transaction_rows(part: Part, schema: pa.Schema, filters: Filters) -> Iterator[pa.RecordBatch]:
    """Yield one row per record in a part of a segment of `__transaction_state` (see TRANSACTION_COLUMNS)."""
    yield from decoded(part, schema, filters, tuple(TRANSACTION_COLUMNS), _transaction_row)


def offset_rows(part: Part, schema: pa.Schema, filters: Filters) -> Iterator[pa.RecordBatch]:
    """Yield one row per committed offset in a part of a segment of `__consumer_offsets` (see OFFSET_COLUMNS)."""
    yield from decoded(part, schema, filters, tuple(OFFSET_COLUMNS), _offset_row)


def _kept(part: Part, filters: Filters, *, control: bool) -> Iterator[tuple[Run, Numbers]]:
    for run in read_runs(part):
        if isinstance(run, Run):
            keep = wanted_rows(run, part.segment, filters)
            flags = np.asarray(run.headers.attributes)[keep] & CONTROL
            yield run, keep[(flags != 0) == control]


def decoded(part: Part, schema: pa.Schema, filters: Filters, names: tuple[str, ...], decoder: Decode) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a level that decodes the records of an internal topic. `decoder` decodes one record; `names` are the columns of the
    rows that it returns."""
    for run, keep in _kept(part, filters, control=False):
        for group in open_batches(run, keep):
            rows: list[Row] = []
            for row, section in group:
                header = read_header(run.batch(row))
                position = run.position + run.headers.positions[row]
                try:
                    records = list(iter_section(section, header))
                except RecordsError:
                    continue
                for record in records:
                    try:
                        rows += decoder(position, header, record)
                    except ProtocolError:
                        continue
            yield from _arrow(part, schema, names, rows, filters)


def _arrow(part: Part, schema: pa.Schema, names: tuple[str, ...], rows: list[Row], filters: Filters) -> Iterator[pa.RecordBatch]:
    first, end = max(part.segment.log_start_offset, filters.start_offset), filters.end_offset
    offset, time = names.index("offset"), names.index("timestamp")
    rows = [r for r in rows if first <= r[offset] < end and filters.start_timestamp <= r[time] < filters.end_timestamp]
    if rows:
        yield to_arrow(part.segment, schema, by_column(names, rows), len(rows))


def _marker_row(run: Run, row: int) -> list[Row]:
    data = run.batch(row)
    head = read_header(data)
    try:
        marker = parse_marker(data)
    except RecordsError:
        return []
    name = None if marker.type is None else marker.type.name.lower()
    epoch = marker.coordinator_epoch if marker.ends_transaction else None
    position = run.position + run.headers.positions[row]
    return [(position, head.base_offset, marker.timestamp, name, epoch, head.producer_id, head.producer_epoch, head.partition_leader_epoch)]


def _transaction_row(position: int, _header: BatchHeader, record: Record) -> Sequence[Row]:
    kind, key = read_prefix(record.key or b"")
    if kind != TRANSACTION_KEY:
        return ()
    transactional_id = decode(TransactionLogKey, key, 0).transactional_id
    if record.value is None:
        return [(position, record.offset, record.timestamp, transactional_id, *[None] * 8)]
    version, body = read_prefix(record.value)
    value = decode(TransactionLogValue, body, version, ELEMENTS_MAX)
    status = value.transaction_status
    row = (
        position,
        record.offset,
        record.timestamp,
        transactional_id,
        TRANSACTION_STATES[status] if 0 <= status < len(TRANSACTION_STATES) else f"unknown ({status})",
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        [f"{each.topic}-{index}" for each in value.transaction_partitions or () for index in each.partition_ids],
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
    )
    return [row]


_TOMBSTONE: Final = (None,) * 5


def _offset_row(position: int, header: BatchHeader, record: Record) -> Sequence[Row]:
    kind, body = read_prefix(record.key or b"")
    if not 0 <= kind <= OFFSET_COMMIT:
        return ()
    key = decode(OffsetCommitKey, body, kind)
    committed: Row = _TOMBSTONE
    if record.value is not None:
        version, body = read_prefix(record.value)
        value = decode(OffsetCommitValue, body, version)
        committed = (value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp)
    where = (position, record.offset, record.timestamp, key.group, key.topic, key.partition)
    return [(*where, *committed, header.is_transactional, header.producer_id, header.producer_epoch)]

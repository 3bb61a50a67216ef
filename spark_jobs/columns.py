"""The columns of the `kafka_log` data source, and how a segment's batches become Arrow record batches.

Rules that hold here: columns are named as Kafka names the header's fields; times are milliseconds since the epoch, -1 for none, as in the
file;
only the columns asked for are built; at most `ROWS_MAX` rows or `BYTES_MAX` bytes of keys and values are held before they are handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa

from protocol.errors import ProtocolError
from protocol.records import walk
from protocol.records.batch import MAGIC_V2, BatchHeader
from protocol.records.compression import Codec
from protocol.records.control import parse_marker
from protocol.records.errors import InvalidRecord, RecordsError
from protocol.records.record import Record, iter_records, records_section
from protocol.records.sequence import increment_sequence
from protocol.schema import decode, read_prefix
from protocol.transaction_log import TRANSACTION_STATES, TransactionLogKey, TransactionLogValue
from spark_jobs.log_files import Segment
from spark_jobs.segment_reader import RawBatch, Stop, read_segment

ROWS_MAX: Final = 16384
BYTES_MAX: Final = 16 << 20

SEGMENT_COLUMNS: Final[dict[str, str]] = {
    "log_dir": "string",
    "topic": "string",
    "partition": "int",
    "segment": "bigint",
    "file": "string",
    "log_start_offset": "bigint",
    "cleaned_to": "bigint",
    "clean_shutdown": "boolean",
}
BATCH_COLUMNS: Final[dict[str, str]] = {
    "position": "bigint",
    "size_bytes": "bigint",
    "base_offset": "bigint",
    "last_offset": "bigint",
    "leader_epoch": "int",
    "magic": "int",
    "codec": "string",
    "log_append_time": "boolean",
    "transactional": "boolean",
    "control": "boolean",
    "delete_horizon": "boolean",
    "last_offset_delta": "int",
    "record_count": "int",
    "base_timestamp": "bigint",
    "max_timestamp": "bigint",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "base_sequence": "int",
    "last_sequence": "int",
    "crc": "bigint",
    "crc_ok": "boolean",
    "records_found": "int",
    "found_max_timestamp": "bigint",
    "sparse": "boolean",
    "records_fault": "string",
    "marker": "string",
    "coordinator_epoch": "int",
    "error": "string",
    "torn": "boolean",
}
RECORD_COLUMNS: Final[dict[str, str]] = {
    "position": "bigint",
    "base_offset": "bigint",
    "offset": "bigint",
    "timestamp": "bigint",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "transactional": "boolean",
    "control": "boolean",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "sequence": "int",
    "leader_epoch": "int",
}
TRANSACTION_COLUMNS: Final[dict[str, str]] = {
    "position": "bigint",
    "offset": "bigint",
    "timestamp": "bigint",
    "transactional_id": "string",
    "state": "string",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "timeout_ms": "int",
    "partitions": "array<string>",
    "started": "bigint",
    "updated": "bigint",
    "transaction_version": "int",
}
"""The records of `__transaction_state`; `partitions` as `topic-partition`; all after the id is null in a tombstone."""
LEVELS: Final[dict[str, dict[str, str]]] = {"batches": BATCH_COLUMNS, "records": RECORD_COLUMNS, "transactions": TRANSACTION_COLUMNS}

_CODECS: Final = {codec.value: codec.name.lower() for codec in Codec}
_BATCH_WIDTH: Final = len(BATCH_COLUMNS)


def ddl(level: str) -> str:
    """The schema of one level as Spark's DDL. Raises KeyError on an unknown level."""
    return ", ".join(f"`{name}` {kind}" for name, kind in (SEGMENT_COLUMNS | LEVELS[level]).items())


def batch_rows(segment: Segment, schema: pa.Schema, *, walk_records: bool) -> Iterator[pa.RecordBatch]:
    """One row a batch, plus one a stretch of bytes that is no batch (`error` set). `walk_records`: also open each batch and count its
    records."""
    rows: list[Sequence[Any]] = []
    for item in read_segment(segment):
        if isinstance(item, Stop):
            rows.append(_stop_row(item))
        elif item.header.last_offset >= segment.log_start_offset:
            rows.append(_batch_row(item, walk_records))
        if len(rows) == ROWS_MAX:
            yield _to_arrow(segment, schema, _by_column(rows), len(rows))
            rows = []
    if rows:
        yield _to_arrow(segment, schema, _by_column(rows), len(rows))


def record_rows(segment: Segment, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """One row a record at or above the log start offset. Batches whose bytes cannot be trusted are left out (`batch_rows` reports them)."""
    wanted = [name for name in schema.names if name in RECORD_COLUMNS]
    held: dict[str, list[Any]] = {name: [] for name in wanted}
    rows = held_bytes = 0
    for item in read_segment(segment):
        if isinstance(item, Stop) or not item.crc_ok or item.header.last_offset < segment.log_start_offset:
            continue
        try:
            found = _records_of(item, segment.log_start_offset, wanted)
        except RecordsError:
            continue
        for name, values in found.columns.items():
            held[name] += values
        rows += found.rows
        held_bytes += found.size_bytes
        if rows >= ROWS_MAX or held_bytes >= BYTES_MAX:
            yield _to_arrow(segment, schema, held, rows)
            held = {name: [] for name in wanted}
            rows = held_bytes = 0
    if rows:
        yield _to_arrow(segment, schema, held, rows)


def transaction_rows(segment: Segment, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """One row a record of `__transaction_state`. What cannot be trusted or understood is left out."""
    for item in read_segment(segment):
        if isinstance(item, Stop) or not item.crc_ok:
            continue
        try:
            rows = [_transaction_row(item.position, record) for record in iter_records(item.data)]
        except (RecordsError, ProtocolError):
            continue
        if rows:
            yield _to_arrow(segment, schema, dict(zip(TRANSACTION_COLUMNS, zip(*rows, strict=True), strict=True)), len(rows))


def _transaction_row(position: int, record: Record) -> tuple[Any, ...]:
    _, key = read_prefix(record.key or b"")
    transactional_id = decode(TransactionLogKey, key, 0).transactional_id
    if record.value is None:
        return (position, record.offset, record.timestamp, transactional_id, *[None] * 8)
    version, body = read_prefix(record.value)
    value = decode(TransactionLogValue, body, version)
    status = value.transaction_status
    return (
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


def _stop_row(stop: Stop) -> list[Any]:
    row: list[Any] = [None] * _BATCH_WIDTH
    row[0], row[1], row[-2], row[-1] = stop.position, stop.size_bytes, stop.reason, stop.torn
    return row


def _batch_row(batch: RawBatch, walk_records: bool) -> tuple[Any, ...]:
    head, data = batch.header, batch.data
    trusted = batch.crc_ok is True
    found, max_timestamp, sparse, fault = _walk(head, data) if trusted and walk_records else (None, None, None, None)
    return (
        batch.position,
        head.size_bytes,
        head.base_offset,
        head.last_offset,
        head.partition_leader_epoch,
        head.magic,
        _CODECS.get(head.attributes & 7, f"unknown ({head.attributes & 7})"),
        head.is_log_append_time,
        head.is_transactional,
        head.is_control,
        head.has_delete_horizon,
        head.last_offset_delta,
        head.record_count,
        head.base_timestamp,
        head.max_timestamp,
        head.producer_id,
        head.producer_epoch,
        head.base_sequence,
        head.last_sequence,
        head.crc if head.magic == MAGIC_V2 else None,
        batch.crc_ok,
        found,
        max_timestamp,
        sparse,
        fault,
        *(_marker(data) if trusted and head.is_control and head.producer_id >= 0 else (None, None)),
        None,
        None,
    )


def _walk(head: BatchHeader, data: memoryview) -> tuple[int | None, int | None, bool | None, str | None]:
    """(records found, the largest of their timestamps, whether offsets inside are left out, what is wrong with the records)."""
    try:
        section = records_section(data, head)
        scan = walk.scan(section, head.record_count, head.base_timestamp)
        if scan.first_bad_index >= 0:
            return scan.first_bad_index, None, None, f"record {scan.first_bad_index}: {scan.reason}"
        if scan.sequential:
            return head.record_count, scan.max_timestamp, False, None
        offsets = walk.columns(section, head.record_count, head.base_offset, head.base_timestamp).offsets
    except RecordsError as e:
        return None, None, None, str(e)
    rising = all(a < b for a, b in pairwise(offsets))
    if not rising or offsets[0] < head.base_offset or offsets[-1] > head.last_offset:
        return head.record_count, scan.max_timestamp, True, "the records' offsets do not rise within the batch's range"
    return head.record_count, scan.max_timestamp, True, None


def _marker(data: memoryview) -> tuple[str | None, int | None]:
    """(commit or abort, coordinator epoch) of a marker."""
    try:
        marker = parse_marker(data)
    except InvalidRecord:
        return None, None
    if marker.type is None or not marker.ends_transaction:
        return None, None
    return marker.type.name.lower(), marker.coordinator_epoch


class _Records(NamedTuple):
    """The wanted columns of one batch's records."""

    rows: int
    size_bytes: int
    columns: dict[str, Sequence[Any]]


def _records_of(batch: RawBatch, log_start_offset: int, wanted: Sequence[str]) -> _Records:
    head = batch.header
    section = records_section(batch.data, head)
    data = bytes(section)
    found = walk.columns(data, head.record_count, head.base_offset, head.base_timestamp)
    skipped = sum(offset < log_start_offset for offset in found.offsets) if head.base_offset < log_start_offset else 0
    offsets = found.offsets[skipped:]
    rows = len(offsets)
    sequences = head.base_sequence >= 0
    build: dict[str, Callable[[], Sequence[Any]]] = {
        "offset": lambda: offsets,
        "timestamp": lambda: [head.max_timestamp] * rows if head.is_log_append_time else found.timestamps[skipped:],
        "key": lambda: _slices(data, found.key_starts[skipped:], found.key_lengths[skipped:]),
        "value": lambda: _slices(data, found.value_starts[skipped:], found.value_lengths[skipped:]),
        "headers": lambda: [list(record.headers) for record in iter_records(batch.data)][skipped:],
        "sequence": lambda: [increment_sequence(head.base_sequence, o - head.base_offset) if sequences else -1 for o in offsets],
    }
    constants: dict[str, Any] = {
        "position": batch.position,
        "base_offset": head.base_offset,
        "transactional": head.is_transactional,
        "control": head.is_control,
        "producer_id": head.producer_id,
        "producer_epoch": head.producer_epoch,
        "leader_epoch": head.partition_leader_epoch,
    }
    return _Records(rows, len(section), {name: build[name]() if name in build else [constants[name]] * rows for name in wanted})


def _slices(data: bytes, starts: Sequence[int], lengths: Sequence[int]) -> list[bytes | None]:
    return [None if size < 0 else data[at : at + size] for at, size in zip(starts, lengths, strict=True)]


def _by_column(rows: list[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    return dict(zip(BATCH_COLUMNS, zip(*rows, strict=True), strict=True))


def _to_arrow(segment: Segment, schema: pa.Schema, columns: Mapping[str, Sequence[Any]], rows: int) -> pa.RecordBatch:
    constants: dict[str, Callable[[], Any]] = {
        "segment": lambda: segment.base_offset,
        "file": lambda: segment.path,
    }
    arrays = []
    for field in schema:
        if field.name in columns:
            arrays.append(pa.array(columns[field.name], field.type))
        else:
            value = constants[field.name]() if field.name in constants else getattr(segment, field.name)
            arrays.append(pa.repeat(pa.scalar(value, field.type), rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

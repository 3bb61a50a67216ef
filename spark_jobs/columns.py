"""The columns of the `kafka_log` data source, and how a segment's batches become Arrow record batches.

Rules that hold here: columns are named as Kafka names the header's fields; times are milliseconds since the epoch, -1 for none, as in the
file;
only the columns asked for are built; at most `ROWS_MAX` rows or `BYTES_MAX` bytes of keys and values are held before they are handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from protocol.records import walk
from protocol.records.batch import BatchHeader
from protocol.records.compression import Codec
from protocol.records.control import parse_marker
from protocol.records.errors import InvalidRecord, RecordsError
from protocol.records.record import iter_records, records_section
from protocol.records.sequence import increment_sequence
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
    "crc_ok": "boolean",
    "records_found": "int",
    "sparse": "boolean",
    "records_fault": "string",
    "marker": "string",
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
LEVELS: Final[dict[str, dict[str, str]]] = {"batches": BATCH_COLUMNS, "records": RECORD_COLUMNS}

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
            yield _to_arrow(segment, schema, BATCH_COLUMNS, rows)
            rows = []
    if rows:
        yield _to_arrow(segment, schema, BATCH_COLUMNS, rows)


def record_rows(segment: Segment, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """One row a record at or above the log start offset. Batches whose bytes cannot be trusted are left out (`batch_rows` reports them)."""
    rows: list[Sequence[Any]] = []
    held = 0
    with_headers = "headers" in schema.names
    for item in read_segment(segment):
        if isinstance(item, Stop) or not item.crc_ok or item.header.last_offset < segment.log_start_offset:
            continue
        try:
            section = records_section(item.data, item.header)
            rows += _records_of(item, section, segment.log_start_offset, with_headers)
        except RecordsError:
            continue
        held += len(section)
        if len(rows) >= ROWS_MAX or held >= BYTES_MAX:
            yield _to_arrow(segment, schema, RECORD_COLUMNS, rows)
            rows, held = [], 0
    if rows:
        yield _to_arrow(segment, schema, RECORD_COLUMNS, rows)


def _stop_row(stop: Stop) -> list[Any]:
    row: list[Any] = [None] * _BATCH_WIDTH
    row[0], row[1], row[-2], row[-1] = stop.position, stop.size_bytes, stop.reason, stop.torn
    return row


def _batch_row(batch: RawBatch, walk_records: bool) -> tuple[Any, ...]:
    head, data = batch.header, batch.data
    trusted = batch.crc_ok is True
    found, sparse, fault = _walk(head, data) if trusted and walk_records else (None, None, None)
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
        batch.crc_ok,
        found,
        sparse,
        fault,
        _marker(data) if trusted and head.is_control and head.producer_id >= 0 else None,
        None,
        None,
    )


def _walk(head: BatchHeader, data: memoryview) -> tuple[int | None, bool | None, str | None]:
    """(records found, whether offsets inside are left out, what is wrong with the records)."""
    try:
        section = records_section(data, head)
        scan = walk.scan(section, head.record_count, head.base_timestamp)
        if scan.first_bad_index >= 0:
            return scan.first_bad_index, None, f"record {scan.first_bad_index}: {scan.reason}"
        if scan.sequential:
            return head.record_count, False, None
        offsets = walk.columns(section, head.record_count, head.base_offset, head.base_timestamp).offsets
    except RecordsError as e:
        return None, None, str(e)
    rising = all(a < b for a, b in pairwise(offsets))
    if not rising or offsets[0] < head.base_offset or offsets[-1] > head.last_offset:
        return head.record_count, True, "the records' offsets do not rise within the batch's range"
    return head.record_count, True, None


def _marker(data: memoryview) -> str | None:
    try:
        marker = parse_marker(data)
    except InvalidRecord:
        return None
    return marker.type.name.lower() if marker.type is not None and marker.ends_transaction else None


def _records_of(batch: RawBatch, section: Any, log_start_offset: int, with_headers: bool) -> Iterator[tuple[Any, ...]]:
    head = batch.header
    no_headers: list[tuple[str, bytes | None]] = []
    if with_headers:
        listed = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in iter_records(batch.data)]
    else:
        data = bytes(section)
        found = walk.columns(data, head.record_count, head.base_offset, head.base_timestamp)
        listed = [
            (offset, timestamp, None if kn < 0 else data[k : k + kn], None if vn < 0 else data[v : v + vn], no_headers)
            for offset, timestamp, k, kn, v, vn in zip(*found[:6], strict=True)
        ]
    for offset, timestamp, key, value, headers in listed:
        if offset >= log_start_offset:
            yield (
                batch.position,
                head.base_offset,
                offset,
                head.max_timestamp if head.is_log_append_time else timestamp,
                key,
                value,
                headers,
                head.is_transactional,
                head.is_control,
                head.producer_id,
                head.producer_epoch,
                -1 if head.base_sequence < 0 else increment_sequence(head.base_sequence, offset - head.base_offset),
                head.partition_leader_epoch,
            )


def _to_arrow(segment: Segment, schema: pa.Schema, names: dict[str, str], rows: list[Sequence[Any]]) -> pa.RecordBatch:
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
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
            arrays.append(pa.repeat(pa.scalar(value, field.type), len(rows)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

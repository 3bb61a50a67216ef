"""Reads level `batches`, which has one row per batch: header fields as columns, whether the CRC is correct, and summaries of the records.

Invariants:
- Work that only an unrequested column needs is skipped: without `crc_ok` and the columns that open a batch, only headers are read.
- Records are opened only if the CRC is correct.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.protocol.records import walk
from ottla.protocol.records.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_OVERHEAD, MAGIC_V2, read_header
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import parse_marker
from ottla.protocol.records.errors import BatchTooLarge, InvalidRecord, RecordsError
from ottla.spark_jobs.columns import SEGMENT_COLUMNS
from ottla.spark_jobs.logs import read_runs
from ottla.spark_jobs.segment_reader import Part, Run, Stop, crc_matches, open_records
from ottla.spark_jobs.tables.build import HeaderNumbers, Numbers, attribute_columns, chosen, to_arrow, wanted_rows
from ottla.spark_jobs.tables.filters import Filters

OPENED: Final = frozenset({"records_found", "found_max_timestamp", "sparse", "records_fault"})
MARKED: Final = frozenset({"marker", "coordinator_epoch"})
CODECS: Final = pa.array([Codec(i).name.lower() if i < len(Codec) else f"unknown ({i})" for i in range(8)])


def batch_rows(part: Part, schema: pa.Schema, filters: Filters) -> Iterator[pa.RecordBatch]:
    """Yield one row per batch that ends at or above the log start offset, and one row per range of bytes that is not a batch."""
    names = frozenset(schema.names)
    bodies = not names.isdisjoint({"crc_ok"} | OPENED | MARKED)
    for item in read_runs(part, bodies=bodies):
        if isinstance(item, Stop):
            yield _stop_row(part, schema, item)
            continue
        keep = wanted_rows(item, part.segment, filters)
        if filters.end_timestamp < 2**63 - 1:
            keep = keep[np.asarray(item.headers.max_timestamps)[keep] < filters.end_timestamp]
        if len(keep):
            yield _rows(part, schema, item, keep, bodies)


def _rows(part: Part, schema: pa.Schema, run: Run, keep: Numbers, bodies: bool) -> pa.RecordBatch:
    head = HeaderNumbers(run.headers, None if len(keep) == run.rows else keep)
    right = crc_matches(run, keep.tolist()) if bodies else []
    builders: dict[str, Any] = attribute_columns(head) | {
        "position": lambda: head.positions + run.position,
        "size_bytes": lambda: head.batch_lengths.astype(np.int64) + LOG_OVERHEAD,
        "base_offset": lambda: head.base_offsets,
        "last_offset": lambda: head.last_offsets,
        "leader_epoch": lambda: head.leader_epochs,
        "magic": lambda: head.magics.astype(np.int32),
        "codec": lambda: CODECS.take(pa.array(head.attributes & CODEC_MASK)),
        "delete_horizon": lambda: head.flag(DELETE_HORIZON),
        "last_offset_delta": lambda: head.last_offset_deltas,
        "record_count": lambda: head.record_counts,
        "base_timestamp": lambda: head.base_timestamps,
        "max_timestamp": lambda: head.max_timestamps,
        "producer_id": lambda: head.producer_ids,
        "producer_epoch": lambda: head.producer_epochs.astype(np.int32),
        "base_sequence": lambda: head.base_sequences,
        "last_sequence": lambda: head.last_sequences,
        "crc": lambda: pa.array(head.crcs.astype(np.int64), mask=head.magics != MAGIC_V2),
        "crc_ok": lambda: right,
        "error": lambda: pa.nulls(len(keep), pa.string()),
        "torn": lambda: pa.nulls(len(keep), pa.bool_()),
    }
    columns = chosen(builders, schema)
    if not OPENED.isdisjoint(schema.names):
        opened = [_open(run, row) if good else _UNREAD for row, good in zip(keep.tolist(), right, strict=True)]
        columns |= dict(zip(_Opened._fields, zip(*opened, strict=True), strict=True))
    if not MARKED.isdisjoint(schema.names):
        is_marker = head.flag(CONTROL) & (head.producer_ids >= 0) & np.array(right, bool)
        markers = [_marker(run.batch(row)) if each else (None, None) for row, each in zip(keep.tolist(), is_marker.tolist(), strict=True)]
        columns |= dict(zip(("marker", "coordinator_epoch"), zip(*markers, strict=True), strict=True))
    return to_arrow(part.segment, schema, columns, len(keep))


def _stop_row(part: Part, schema: pa.Schema, stop: Stop) -> pa.RecordBatch:
    known = {"position": [stop.position], "size_bytes": [stop.size_bytes], "error": [stop.reason], "torn": [stop.torn]}
    unknown = {field.name: pa.nulls(1, field.type) for field in schema if field.name not in SEGMENT_COLUMNS}
    return to_arrow(part.segment, schema, unknown | known, 1)


class _Opened(NamedTuple):
    """A summary of a batch's records. `records_fault`: what is wrong with them, or `not opened: ` and the reason."""

    records_found: int | None
    found_max_timestamp: int | None
    sparse: bool | None
    records_fault: str | None


_UNREAD: Final = _Opened(None, None, None, None)


def _open(run: Run, row: int) -> _Opened:
    """Return a summary of the records of one batch with a correct CRC. Legacy messages (magic 0 or 1) are not opened."""
    if run.headers.magics[row] != MAGIC_V2:
        return _UNREAD
    data = run.batch(row)
    head = read_header(data)
    try:
        section = open_records(data, head)
        scan = walk.scan(section, head.record_count, head.base_timestamp)
        if scan.first_bad_index >= 0:
            return _Opened(scan.first_bad_index, None, None, f"record {scan.first_bad_index}: {scan.reason}")
        if head.is_control and head.producer_id >= 0 and head.record_count:
            parse_marker(data)
        if scan.sequential:
            return _Opened(head.record_count, scan.max_timestamp, False, None)
        offsets = np.asarray(walk.columns(section, head.record_count, head.base_offset, head.base_timestamp).offsets)
    except BatchTooLarge as e:
        return _Opened(None, None, None, f"not opened: {e}")
    except RecordsError as e:
        return _Opened(None, None, None, str(e))
    if (np.diff(offsets) <= 0).any() or offsets[0] < head.base_offset or offsets[-1] > head.last_offset:
        return _Opened(head.record_count, scan.max_timestamp, True, "the records' offsets do not rise within the batch's range")
    return _Opened(head.record_count, scan.max_timestamp, True, None)


def _marker(data: memoryview) -> tuple[str | None, int | None]:
    """Return the type (`commit` or `abort`) and the coordinator epoch of the transaction marker in a control batch; (None, None) if the
    batch has another control record or cannot be decoded."""
    try:
        marker = parse_marker(data)
    except (InvalidRecord, RecordsError):
        return None, None
    if marker.type is None or not marker.ends_transaction:
        return None, None
    return marker.type.name.lower(), marker.coordinator_epoch

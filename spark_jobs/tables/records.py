"""Reads level `records`, which has one row per record: keys, values, offsets and timestamps. `protocol.records.walk` writes them directly
into Arrow's buffers.

Invariants:
- If a batch has a wrong CRC or invalid records, none of its rows are returned; level `batches` reports the damage.
- A batch whose header does not match the filters is not opened.
- At most BYTES_MAX of decompressed records are held, or one batch if it is larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.protocol.records import walk
from ottla.protocol.records.batch import LOG_APPEND_TIME, MAGIC_V2, read_header
from ottla.protocol.records.errors import InvalidRecord, RecordsError
from ottla.protocol.wire import Buffer
from ottla.spark_jobs.logs import read_runs
from ottla.spark_jobs.segment_reader import Part, Run, Stop, crc_matches, open_records
from ottla.spark_jobs.tables.build import HeaderNumbers, Numbers, attribute_columns, chosen, sequence_after, to_arrow, wanted_rows
from ottla.spark_jobs.tables.filters import Filters

BYTES_MAX: Final = 16 << 20
_NAMES_AT_ONCE: Final = 1 << 16


class Opened(NamedTuple):
    """A batch of a run (batches that were read together): its number in the run, and its decompressed records."""

    row: int
    section: Buffer


def record_rows(part: Part, schema: pa.Schema, filters: Filters) -> Iterator[pa.RecordBatch]:
    """Yield one row per record in a part of a segment, from the log start offset on (see RECORD_COLUMNS)."""
    for run in read_runs(part):
        if isinstance(run, Stop):
            continue
        for opened in open_batches(run, wanted_rows(run, part.segment, filters)):
            rows = _rows(part, schema, run, opened, filters)
            if rows is not None and rows.num_rows:
                yield rows


def open_batches(run: Run, rows: Numbers) -> Iterator[list[Opened]]:
    """Yield the batches `rows` of a run, decompressed, in groups of about BYTES_MAX bytes, without damaged batches and legacy messages."""
    group: list[Opened] = []
    size = 0
    for row, right in zip(rows.tolist(), crc_matches(run, rows.tolist()), strict=True):
        if not right or run.headers.magics[row] != MAGIC_V2:
            continue
        data = run.batch(row)
        try:
            section = open_records(data, read_header(data))
        except RecordsError:
            continue
        group.append(Opened(row, section))
        size += len(section)
        if size >= BYTES_MAX:
            yield group
            group, size = [], 0
    if group:
        yield group


def _rows(part: Part, schema: pa.Schema, run: Run, opened: Sequence[Opened], filters: Filters) -> pa.RecordBatch | None:
    fill = _Fill(run, opened, keys="key" in schema.names, values="value" in schema.names)
    rows = fill.rows
    batches = np.array([each.row for each in opened], np.int64)
    head = HeaderNumbers(run.headers, batches)
    counts = fill.counts

    def spread(column: Numbers) -> Numbers:
        repeated: Numbers = np.repeat(column, counts)
        return repeated

    offsets = fill.offsets[:rows]
    append_time = spread(head.flag(LOG_APPEND_TIME))
    timestamps = np.where(append_time, spread(head.max_timestamps), fill.timestamps[:rows]) if append_time.any() else fill.timestamps[:rows]
    builders: dict[str, Any] = {name: lambda build=build: spread(build()) for name, build in attribute_columns(head).items()} | {
        "position": lambda: spread(head.positions + run.position),
        "base_offset": lambda: spread(head.base_offsets),
        "offset": lambda: offsets,
        "timestamp": lambda: timestamps,
        "key": fill.key_column,
        "value": fill.value_column,
        "headers": lambda: _headers(opened, counts, schema.field("headers").type),
        "producer_id": lambda: spread(head.producer_ids),
        "producer_epoch": lambda: spread(head.producer_epochs.astype(np.int32)),
        "sequence": lambda: sequence_after(spread(head.base_sequences), offsets - spread(head.base_offsets)),
        "leader_epoch": lambda: spread(head.leader_epochs),
    }
    found = to_arrow(part.segment, schema, chosen(builders, schema), rows)
    keep = offsets >= max(part.segment.log_start_offset, filters.start_offset)
    keep &= offsets < filters.end_offset
    if filters.has_times:
        keep &= (timestamps >= filters.start_timestamp) & (timestamps < filters.end_timestamp)
    return found if keep.all() else found.filter(pa.array(keep))


class _Fill:
    """Collects the records of several batches in buffers that become Arrow arrays without a copy."""

    def __init__(self, run: Run, opened: Sequence[Opened], *, keys: bool, values: bool) -> None:
        head = run.headers
        size = sum(len(each.section) for each in opened)
        record_count = sum(min(max(head.record_counts[e.row], 0), len(e.section) // walk.MIN_RECORD_BYTES) for e in opened)
        self.offsets, self.timestamps = np.empty(record_count, np.int64), np.empty(record_count, np.int64)
        self._keys, self._values = _Binary(record_count, size, keys), _Binary(record_count, size, values)
        k, v = self._keys, self._values
        filler = walk.Filler(self.offsets, self.timestamps, k.ends, k.data, k.present, v.ends, v.data, v.present)
        self.counts = np.zeros(len(opened), np.int64)
        for at, (row, section) in enumerate(opened):
            before = filler.rows
            try:
                filler.add(section, head.record_counts[row], head.base_offsets[row], head.base_timestamps[row])
            except InvalidRecord:
                continue
            self.counts[at] = filler.rows - before
        self.rows: int = filler.rows

    def key_column(self) -> pa.Array:
        """Return the collected records' keys as an Arrow binary array."""
        return self._keys.column(self.rows)

    def value_column(self) -> pa.Array:
        """Return the collected records' values as an Arrow binary array."""
        return self._values.column(self.rows)


class _Binary:
    """Buffers for the values of one column, which become an Arrow array of type binary without a copy."""

    def __init__(self, rows: int, size: int, wanted: bool) -> None:
        self.ends = np.zeros(rows + 1 if wanted else 0, np.int32)
        self.data = np.empty(size if wanted else 0, np.uint8)
        self.present = np.empty(rows if wanted else 0, np.uint8)

    def column(self, rows: int) -> pa.Array:
        present = self.present[:rows]
        nulls = rows - int(np.count_nonzero(present))
        validity = pa.py_buffer(np.packbits(present, bitorder="little")) if nulls else None
        return pa.Array.from_buffers(pa.binary(), rows, [validity, pa.py_buffer(self.ends), pa.py_buffer(self.data)], nulls)


def _headers(opened: Sequence[Opened], counts: Numbers, kind: pa.ListType) -> pa.Array:
    """Return the headers of the records that `_Fill` collected, as an Arrow array of type `kind`. No header becomes a Python object: 16 MiB
    of headers, which compress to 15 KiB, took 660 MiB and 7 s."""
    found = walk.header_columns([each.section for each, count in zip(opened, counts, strict=True) if count], counts[counts > 0].tolist())
    total = len(found.value_present)
    keys = pa.Array.from_buffers(pa.binary(), total, [None, pa.py_buffer(found.key_ends), pa.py_buffer(found.keys)])
    validity = pa.py_buffer(np.packbits(np.frombuffer(found.value_present, np.uint8), bitorder="little"))
    values = pa.Array.from_buffers(pa.binary(), total, [validity, pa.py_buffer(found.value_ends), pa.py_buffer(found.values)])
    headers = pa.StructArray.from_arrays([_printable(keys), values], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(np.frombuffer(found.record_ends, np.int32)), headers, type=kind)


def _printable(names: pa.Array) -> pa.Array:
    """Return header names as strings, with invalid bytes replaced: Arrow strings must be valid UTF-8."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        parts = (names[at : at + _NAMES_AT_ONCE].to_pylist() for at in range(0, len(names), _NAMES_AT_ONCE))
        return pa.concat_arrays([pa.array([name.decode("utf-8", "replace") for name in part], pa.string()) for part in parts])

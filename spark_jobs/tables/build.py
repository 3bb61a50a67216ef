"""What all levels need to build Arrow record batches: constants of a file, and numbers of many headers at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.protocol.records.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from ottla.protocol.records.batch_walk import Headers
from ottla.spark_jobs.log_directory import LogFile, Segment
from ottla.spark_jobs.segment_reader import Run
from ottla.spark_jobs.tables.filters import Filters

Numbers = np.ndarray[Any, np.dtype[Any]]
SEQUENCES: Final = 2**31


def to_arrow(file: LogFile, schema: pa.Schema, columns: Mapping[str, Any], rows: int) -> pa.RecordBatch:
    """A record batch of `columns` (arrays, numpy or lists, by name) and of what is the same in each row of a file."""
    arrays = []
    for field in schema:
        if field.name in columns:
            values = columns[field.name]
            arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(constant(file, field.name), field.type), rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def constant(file: LogFile, name: str) -> Any:
    """What a file says in one of the columns that are in front of every level."""
    if name == "segment":
        return file.base_offset
    return file.path if name == "file" else getattr(file, name)


class HeaderNumbers:
    """The headers of some batches of a run as numpy arrays, chosen by `keep` (None: all)."""

    def __init__(self, headers: Headers, keep: Numbers | None = None) -> None:
        self._headers = headers
        self._keep = keep

    def __getattr__(self, name: str) -> Numbers:
        found = np.asarray(getattr(self._headers, name))
        chosen = found if self._keep is None else found[self._keep]
        setattr(self, name, chosen)
        return chosen

    @property
    def last_offsets(self) -> Numbers:
        """Of each batch, whether or not a record with it is still there."""
        last: Numbers = self.base_offsets + self.last_offset_deltas
        return last

    @property
    def last_sequences(self) -> Numbers:
        """Wrapped past 2^31-1; -1 where a batch carries none."""
        return sequence_after(self.base_sequences, self.last_offset_deltas)

    def flag(self, bit: int) -> Numbers:
        """One of the attributes' bits, as booleans."""
        found: Numbers = (self.attributes & bit) != 0
        return found


def sequence_after(base_sequences: Numbers, deltas: Numbers) -> Numbers:
    """Sequences so many records after others, wrapped as Kafka's DefaultRecordBatch.incrementSequence does; -1 where there is none."""
    after = (base_sequences.astype(np.int64) + deltas) % SEQUENCES
    found: Numbers = np.where(base_sequences == -1, -1, after).astype(np.int32)
    return found


def wanted_rows(run: Run, segment: Segment, filters: Filters) -> Numbers:
    """Which batches of a run may hold a row that is wanted: those with an offset in the log and in the range, not older than the range.

    Below the log start lie only batches before any that is above it: a lower offset behind those is damage, and in the log."""
    head = HeaderNumbers(run.headers)
    last = head.last_offsets
    high, low = np.maximum(head.base_offsets, last), np.minimum(head.base_offsets, last)
    keep = np.ones(run.rows, bool)
    if segment.base_offset < segment.log_start_offset:
        keep = np.maximum.accumulate(last >= segment.log_start_offset)
    if filters.has_offsets:
        keep &= (high >= filters.start_offset) & (low < filters.end_offset)
    if filters.has_times:
        keep &= (head.max_timestamps >= filters.start_timestamp) | (head.magics < 2)
    found: Numbers = np.flatnonzero(keep)
    return found


def attribute_columns(head: HeaderNumbers) -> dict[str, Any]:
    """The columns of flags that several levels have, as functions: only those asked for are called."""
    return {
        "log_append_time": lambda: head.flag(LOG_APPEND_TIME),
        "transactional": lambda: head.flag(TRANSACTIONAL),
        "control": lambda: head.flag(CONTROL),
    }


def chosen(builders: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """The columns of `schema` that `builders` make."""
    return {name: builders[name]() for name in schema.names if name in builders}


def by_column(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Rows turned into columns."""
    return dict(zip(names, zip(*rows, strict=True), strict=True))

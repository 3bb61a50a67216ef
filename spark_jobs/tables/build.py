"""Builds Arrow record batches for all levels (kinds of rows): columns that are constant in a file, and the numbers of many headers at
once."""

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
    """Build a record batch from `columns` (Arrow or numpy arrays or lists, by name) and from the values that are the same in every row
    of a file."""
    arrays = []
    for field in schema:
        if field.name in columns:
            values = columns[field.name]
            arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(constant(file, field.name), field.type), rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def constant(file: LogFile, name: str) -> Any:
    """Return the value of column `name`, one of SEGMENT_COLUMNS, for all rows of a file. These columns are constant within a file."""
    if name == "segment":
        return file.base_offset
    return file.path if name == "file" else getattr(file, name)


class HeaderNumbers:
    """The header fields of consecutive batches as numpy arrays, one element per batch. The attributes have the names of the reader's
    `Headers` and are converted on first access. `keep`: the indexes of the batches to include (None: all)."""

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
        """The last offset of each batch's range, even if compaction removed the record there."""
        last: Numbers = self.base_offsets + self.last_offset_deltas
        return last

    @property
    def last_sequences(self) -> Numbers:
        """Each batch's last sequence, wrapped past 2^31-1; -1 if the batch has no sequence."""
        return sequence_after(self.base_sequences, self.last_offset_deltas)

    def flag(self, bit: int) -> Numbers:
        """Return, for each batch, whether a bit of its attributes is set. `bit` is the bit's mask."""
        found: Numbers = (self.attributes & bit) != 0
        return found


def sequence_after(base_sequences: Numbers, deltas: Numbers) -> Numbers:
    """Add deltas to sequences, wrapping as Kafka's DefaultRecordBatch.incrementSequence does; -1 (no sequence) stays -1."""
    after = (base_sequences.astype(np.int64) + deltas) % SEQUENCES
    found: Numbers = np.where(base_sequences == -1, -1, after).astype(np.int32)
    return found


def wanted_rows(run: Run, segment: Segment, filters: Filters) -> Numbers:
    """Return the indexes of those batches of a run (batches that were read together) that may contain a wanted row. Such a batch has an
    offset that is in the log and in the wanted offset range, and it is not older than the wanted times.

    Batches below the log start offset are skipped only until the first batch that reaches it: a lower offset after that is damage, which
    rules must see.
    """
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
    """Return functions that compute the columns about batch attributes (such as `transactional` and `control`), by column name. Only the
    functions for requested columns are called (see `chosen`)."""
    return {
        "log_append_time": lambda: head.flag(LOG_APPEND_TIME),
        "transactional": lambda: head.flag(TRANSACTIONAL),
        "control": lambda: head.flag(CONTROL),
    }


def chosen(builders: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """Build the columns of `schema` for which `builders` has a function, and return them by name. Functions for other columns are not
    called, because they may be costly."""
    return {name: builders[name]() for name in schema.names if name in builders}


def by_column(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Convert rows to columns: return for each of `names` the list of its values in all rows."""
    return dict(zip(names, zip(*rows, strict=True), strict=True))

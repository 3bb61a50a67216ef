"""Reads Kafka logs as Arrow record batches, without Spark. A level is a kind of row, such as `batches` or `records` (see `columns`). The
data source, the embedded engine and tests read logs through this package.

    for batch in read("batches", ["/var/lib/kafka"], ["topic", "base_offset", "crc_ok"], Filters(topics=frozenset({"flights"}))):
        ...

Invariants:
- Only the requested columns are built. Costly work (opening records, computing checksums) is done only if a requested column needs it.
- A filter leaves out rows; it never changes a row.
- The rows of one segment come in file order.
- `plan` divides the same reading into tasks, which may run in any order; together they return the rows of `read`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from ottla.spark_jobs import splits
from ottla.spark_jobs.columns import LEVELS
from ottla.spark_jobs.log_directory import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, LogDirectory, SideFile, no_logs
from ottla.spark_jobs.logs import find_logs, one_or_more
from ottla.spark_jobs.segment_reader import Part
from ottla.spark_jobs.tables.batches import batch_rows
from ottla.spark_jobs.tables.control import marker_rows, offset_rows, transaction_rows
from ottla.spark_jobs.tables.filters import Filters
from ottla.spark_jobs.tables.groups import group_rows, share_state_rows
from ottla.spark_jobs.tables.records import record_rows
from ottla.spark_jobs.tables.schemas import arrow_schema
from ottla.spark_jobs.tables.side_files import index_rows, snapshot_rows
from ottla.spark_jobs.wire.address import Address

__all__ = ["SIDE_FILES", "Filters", "Task", "arrow_schema", "plan", "read", "read_task"]

Task = list[Part] | list[SideFile]
"""The input of one task. A task can be pickled and read on another machine that sees the same files."""

Places = str | Path | Address | LogDirectory | Sequence[str | Path | Address | LogDirectory]
"""The logs to read: a path, a cluster's address, an earlier listing, or several of these."""
WHOLE_BYTES: Final = 1 << 62
"""A part size in bytes that is larger than any segment: `splits.parts` then cuts a segment only where the range of wanted offsets begins
and ends."""
INTERNAL: Final = {
    "transactions": TRANSACTION_STATE,
    "offsets": CONSUMER_OFFSETS,
    "groups": CONSUMER_OFFSETS,
    "share_states": SHARE_GROUP_STATE,
}
"""The internal topic from whose records the rows of a level are decoded, by level. Other levels are not in the dictionary."""
_PARTS: Final[dict[str, Callable[[Part, pa.Schema, Filters], Iterator[pa.RecordBatch]]]] = {
    "batches": batch_rows,
    "records": record_rows,
    "markers": marker_rows,
    "transactions": transaction_rows,
    "offsets": offset_rows,
    "groups": group_rows,
    "share_states": share_state_rows,
}
SIDE_FILES: Final[dict[str, Callable[[SideFile, pa.Schema], Iterator[pa.RecordBatch]]]] = {
    "snapshots": snapshot_rows,
    "indexes": index_rows,
}
assert _PARTS.keys() | SIDE_FILES.keys() == LEVELS.keys()


def read(level: str, paths: Places, columns: Sequence[str] | None = None, filters: Filters | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one level, a kind of row such as `batches` or `records` (see `columns.LEVELS`), of the logs at `paths`. The rows
    have `columns` in that order (None: all columns).

    Raises ValueError on an unknown level, KeyError on an unknown column, and OSError when a directory, a cluster or a listed file cannot be
    read. Damage inside a file is reported in the rows.
    """
    schema = arrow_schema(level, columns)
    chosen = _of_level(level, filters or Filters())
    for found in _found(paths, chosen):
        files = _side_files(level, found, chosen) if level in SIDE_FILES else None
        if files is not None:
            yield from read_task(level, files, schema, chosen)
            continue
        for segment in found.segments:
            yield from read_task(level, splits.parts(segment, chosen, WHOLE_BYTES), schema, chosen)


def plan(level: str, paths: Places, filters: Filters | None = None) -> list[Task]:
    """Return tasks of about equal size that together read the same rows as `read` with these arguments. Raises ValueError on an unknown
    level, OSError when a directory, a cluster or a listed file cannot be read."""
    if level not in LEVELS:
        raise ValueError(f"unknown level {level!r}: one of {', '.join(LEVELS)}")
    chosen = _of_level(level, filters or Filters())
    logs = list(_found(paths, chosen))
    if level in SIDE_FILES:
        files = [file for found in logs for file in _side_files(level, found, chosen)]
        return [files[at : at + splits.FILES_MAX] for at in range(0, len(files), splits.FILES_MAX)]
    segments = [segment for found in logs for segment in found.segments if chosen.wants_segment(segment)]
    target = splits.task_bytes(segments)
    return list(splits.pack([part for segment in segments for part in splits.parts(segment, chosen, target)], target))


def read_task(level: str, task: Task, schema: pa.Schema, filters: Filters) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task that `plan` returned for this level and these filters, with the columns of `schema`."""
    for each in task:
        if isinstance(each, SideFile):
            with suppress(FileNotFoundError):  # the broker deleted it with its segment since the listing
                yield from SIDE_FILES[level](each, schema)
        else:
            yield from _PARTS[level](each, schema, filters)


def _found(paths: Places, filters: Filters) -> Iterator[LogDirectory]:
    """Yield the listing of the logs at each path. Raises OSError if a path cannot be read, so that it does not look like a log without
    rows. A path that has none of the topics in `filters` raises no error, because another path may have them; nor does an internal topic
    of a cluster that this user may not read, because its rows only add facts."""
    for path in one_or_more(paths):
        found = find_logs(path, filters.topics)
        problems = [each for each in found.problems if not each.startswith("__")]
        if not found.segments and problems not in ([], [no_logs(found.path, filters.topics)]):
            raise OSError("; ".join(problems))
        yield found


def _of_level(level: str, filters: Filters) -> Filters:
    return replace(filters, topics=frozenset({INTERNAL[level]})) if level in INTERNAL else filters


def _side_files(level: str, found: LogDirectory, filters: Filters) -> list[SideFile]:
    return [file for file in found.side_files if (file.kind == "snapshot") == (level == "snapshots") and filters.wants(file)]

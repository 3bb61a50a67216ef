"""Levels of Kafka logs as Arrow record batches, without Spark: what the data source, the embedded engine and tests read through.

    for batch in read("batches", ["/var/lib/kafka"], ["topic", "base_offset", "crc_ok"], Filters(topics=frozenset({"flights"}))):
        ...

Rules that hold here: only the columns asked for are built, and what only they need is only then done (opening records, checksums); a
filter never changes a row, it leaves out rows; rows of one segment come in file order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from spark_jobs.columns import batch_rows, record_rows, transaction_rows
from spark_jobs.log_files import TRANSACTION_STATE, Segment, find_logs
from spark_jobs.tables.filters import Filters
from spark_jobs.tables.schemas import arrow_schema

__all__ = ["Filters", "arrow_schema", "read"]


def read(
    level: str, paths: Sequence[str | Path], columns: Sequence[str] | None = None, filters: Filters | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one level (see `columns.LEVELS`) of the logs at `paths`, with `columns` (None: all) in that order.

    Raises ValueError on an unknown level, KeyError on an unknown column, OSError when a listed file cannot be read. What is wrong with a
    file's content is in the rows.
    """
    schema = arrow_schema(level, columns)
    chosen = filters or Filters()
    topics = [TRANSACTION_STATE] if level == "transactions" else sorted(chosen.topics)
    for path in paths:
        for segment in find_logs(path, topics).segments:
            if not chosen.partitions or segment.partition in chosen.partitions:
                yield from _rows(level, segment, schema)


def _rows(level: str, segment: Segment, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if level == "records":
        return record_rows(segment, schema)
    if level == "transactions":
        return transaction_rows(segment, schema)
    return batch_rows(segment, schema, walk_records=True)

"""One Spark task of reading logs, as the data source and its stream plan it on the driver and carry it out on executors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ottla.spark_jobs.tables import Filters, Task, read_task


@dataclass
class TaskPartition(InputPartition):
    """What one task reads, and which of its rows."""

    task: Task
    filters: Filters


def rows_of(level: str, partition: TaskPartition, schema: pa.Schema, unread: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """The rows of one task; columns in `unread` are null."""
    read = pa.schema([field for field in schema if field.name not in unread])
    for batch in read_task(level, partition.task, read, partition.filters):
        if len(read) == len(schema):
            yield batch
        else:
            arrays = [pa.nulls(batch.num_rows, f.type) if f.name in unread else batch.column(f.name) for f in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

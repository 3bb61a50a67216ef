"""One Spark task that reads logs. The data source and its stream plan tasks on the driver and run them on executors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ottla.spark_jobs.tables import Filters, Task, read_task


@dataclass
class TaskPartition(InputPartition):
    """The input of one task, and the filters for its rows."""

    task: Task
    filters: Filters


def rows_of(level: str, partition: TaskPartition, schema: pa.Schema, unread: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task, with the columns of `schema`. The columns in `unread` are not read from the log; they are null."""
    read = pa.schema([field for field in schema if field.name not in unread])
    for batch in read_task(level, partition.task, read, partition.filters):
        if len(read) == len(schema):
            yield batch
        else:
            arrays = [pa.nulls(batch.num_rows, f.type) if f.name in unread else batch.column(f.name) for f in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

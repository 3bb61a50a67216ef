"""Writes rows as Parquet files, in one directory per table partition. Every sink writes its data files in this way, before it commits them.

Invariants:
- No two calls, not even two attempts of one of Spark's tasks, write the same file. Only files that `Staging.write` returned are committed.
- A file holds the rows of one topic and, in tables that are partitioned by date, of one date. Files are synced to disk before `write`
  returns them; in an object store a file is durable when it is closed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ottla.spark_jobs.filesystem import place
from ottla.spark_jobs.sinks.schemas import DATE, FILES, TableSpec
from ottla.spark_jobs.tables.schemas import ARROW_TYPES

OPEN_FILES_MAX: Final = 64
"""The maximum number of files that are written at the same time, because each buffers a row group. Before another one is opened, the file
of the least recently used partition is closed."""
ROW_GROUP_ROWS: Final = 1 << 16
DAY_MS: Final = 86_400_000
DAYS_END: Final = 2_932_897
"""The number of days from 1970-01-01 to 9999-12-31, the last date that the type DATE of every engine can hold."""
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
DIRECTORY_PREFIX: Final = "by_"
"""A prefix for the names of partition directories (`by_topic=orders`) if the files contain the partition columns too, so that a reader that
makes columns of directory names does not get the same column twice."""
FILES_SCHEMA: Final = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in (column.split() for column in FILES.split(", "))])


@dataclass(frozen=True, slots=True)
class DataFile:
    """A written file. `path` is relative to the staging directory, with `/`, and percent-encoded as Hive does it."""

    path: str
    size_bytes: int
    rows: int

    @property
    def partition(self) -> dict[str, str | None]:
        """The file's values of the table's partition columns, as text, by column name. None stands for null."""
        parts = (part.removeprefix(DIRECTORY_PREFIX).partition("=") for part in self.path.split("/")[:-1])
        return {name: None if value == NULL else unquote(value) for name, _, value in parts}


@dataclass(frozen=True, slots=True)
class Staging:
    """The place and layout of a table's files. `directory`: a path or a URL (see `filesystem`). `keeps_partition_columns`: the files
    contain the partition columns too, not only the directories' names. `suffix`: the end of a file's name until the file is committed."""

    directory: str
    table: TableSpec
    keeps_partition_columns: bool = False
    suffix: str = ".parquet"

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write record batches as Parquet files of the table. Their columns are the table's, in any order, without `date`, which is
        computed. Yield one batch in FILES_SCHEMA, with a row for each file. Rows that are sorted by topic and time give the fewest files.
        Raises OSError if a file cannot be written."""
        schema = self.table.schema
        prefix = DIRECTORY_PREFIX if self.keeps_partition_columns else ""
        directories = pa.schema([(prefix + name, schema.field(name).type) for name in self.table.partition_by])
        full = pa.schema([*schema, *directories]) if self.keeps_partition_columns else schema
        written: list[tuple[str, int, int]] = []
        where = place(self.directory)

        def on_written(file: ds.WrittenFile) -> None:
            if where.is_local:
                with Path(file.path).open("rb") as opened:
                    os.fsync(opened.fileno())
            written.append((file.path.removeprefix(f"{where.inside}/"), file.size, file.metadata.num_rows))

        if where.is_local:
            Path(where.path).mkdir(parents=True, exist_ok=True)
        ds.write_dataset(
            pa.RecordBatchReader.from_batches(full, (self._completed(batch, full) for batch in batches if batch.num_rows)),
            where.inside,
            filesystem=where.system,
            format="parquet",
            partitioning=ds.partitioning(directories, flavor="hive"),
            basename_template=f"{uuid.uuid4().hex}-{{i}}{self.suffix}",
            existing_data_behavior="overwrite_or_ignore",
            max_open_files=OPEN_FILES_MAX,
            max_rows_per_group=ROW_GROUP_ROWS,
            max_partitions=1 << 20,
            use_threads=False,
            file_visitor=on_written,
        )
        rows = zip(*written, strict=True) if written else ((), (), ())
        yield pa.record_batch([pa.array(column, field.type) for column, field in zip(rows, FILES_SCHEMA, strict=True)], schema=FILES_SCHEMA)

    def stage(self, rows: pa.Table) -> list[DataFile]:
        """Write the rows as data files of the table, in this process, and return the files. Readers of the table do not see the files until
        they are committed. Raises OSError if a file cannot be written."""
        return [DataFile(**row) for written in self.write(iter(rows.to_batches())) for row in written.to_pylist()]

    def _completed(self, batch: pa.RecordBatch, full: pa.Schema) -> pa.RecordBatch:
        columns = {name: batch.column(name) for name, _ in self.table.columns}
        if self.table.dated is not None:
            columns[DATE] = dates(columns[self.table.dated])
        arrays = [columns[name.removeprefix(DIRECTORY_PREFIX) if name not in columns else name] for name in full.names]
        return pa.record_batch([_cast(array, field.type) for array, field in zip(arrays, full, strict=True)], schema=full)


def dates(times: pa.Array) -> pa.Array:
    """Return the UTC dates of times in ms since the epoch; null for times without a date that every engine can hold."""
    times = times.cast(pa.int64())
    days = pc.divide(times, DAY_MS)
    is_date = pc.and_(pc.greater_equal(times, 0), pc.less(days, DAYS_END))
    return pc.if_else(is_date, days, None).cast(pa.int32()).cast(pa.date32())


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type.equals(kind) else array.cast(kind)

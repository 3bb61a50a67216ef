"""`kafka_log`: a Spark data source over the segment files of Kafka logs (PySpark's Python DataSource API, Arrow out).

    spark.dataSource.register(KafkaLogSource)
    spark.read.format("kafka_log").option("level", "records").load("/var/lib/ottla")

Options: `path` (a broker's data directory or one partition's; several by `load([...])`), `topic` (only these, comma-separated), `level`
(`batches`, the default, `records`, or `transactions`: the records of `__transaction_state`, decoded), `walk` (`true`, the default: at level
batches also open each batch and count its records). A `.schema(...)` that names fewer columns makes the reader build only those. Segments
are never split; small ones share a task.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_jobs.columns import LEVELS, batch_rows, ddl, record_rows, transaction_rows
from spark_jobs.log_files import TRANSACTION_STATE, Segment, find_logs

TASK_BYTES_MAX: Final = 64 << 20
TASK_BYTES_MIN: Final = 1 << 20
TASKS_WANTED: Final = 16
"""Enough tasks to keep a laptop's cores evenly busy; above TASK_BYTES_MAX a task, the data decides."""


class KafkaLogSource(DataSource):
    """The data source under the name `kafka_log`. Raises ValueError on an unknown level or a missing path."""

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` takes."""
        return "kafka_log"

    def schema(self) -> str:
        """Every column of the level (see `columns`)."""
        return ddl(self._level())

    def reader(self, schema: StructType) -> KafkaLogReader:
        """A reader of exactly the columns of `schema`."""
        many = self.options.get("paths")
        paths = json.loads(many) if many else [self.options.get("path", "")]
        if not all(paths):
            raise ValueError("kafka_log needs a path: spark.read.format('kafka_log').load(DIR)")
        topics = [topic for topic in self.options.get("topic", "").split(",") if topic]
        if self._level() == "transactions":
            topics = [TRANSACTION_STATE]
        return KafkaLogReader(paths, topics, self._level(), self.options.get("walk", "true") == "true", to_arrow_schema(schema))

    def _level(self) -> str:
        level: str = self.options.get("level", "batches")
        if level not in LEVELS:
            raise ValueError(f"unknown level {level!r}: one of {', '.join(LEVELS)}")
        return level


@dataclass
class SegmentGroup(InputPartition):
    """The segments that one task reads."""

    segments: list[Segment]


class KafkaLogReader(DataSourceReader):
    """Lists the segments on the driver, reads them on the executors."""

    def __init__(self, paths: list[str], topics: list[str], level: str, walk_records: bool, schema: pa.Schema) -> None:
        self._paths = paths
        self._topics = topics
        self._level = level
        self._walk_records = walk_records
        self._schema = schema

    def partitions(self) -> list[SegmentGroup]:
        """Groups of segments, as even in bytes as whole segments allow."""
        return pack([segment for path in self._paths for segment in find_logs(path, self._topics).segments])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one group as Arrow record batches."""
        assert isinstance(partition, SegmentGroup)
        for segment in partition.segments:
            if self._level == "records":
                yield from record_rows(segment, self._schema)
            elif self._level == "transactions":
                yield from transaction_rows(segment, self._schema)
            else:
                yield from batch_rows(segment, self._schema, walk_records=self._walk_records)


def pack(segments: list[Segment]) -> list[SegmentGroup]:
    """Largest first into tasks of a bounded size; empty segments are left out. Never an empty list: Spark wants one task."""
    filled = sorted((s for s in segments if s.size_bytes), key=lambda s: s.size_bytes, reverse=True)
    target = min(TASK_BYTES_MAX, max(TASK_BYTES_MIN, sum(s.size_bytes for s in filled) // TASKS_WANTED))
    groups: list[SegmentGroup] = []
    room = 0
    for segment in filled:
        if segment.size_bytes > room:
            groups.append(SegmentGroup([]))
            room = max(target, segment.size_bytes)
        groups[-1].segments.append(segment)
        room -= segment.size_bytes
    return groups or [SegmentGroup([])]

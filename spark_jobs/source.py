"""`kafka_log`: a Spark data source over the files of Kafka logs (PySpark's Python DataSource API, with Arrow batches).

    spark.dataSource.register(KafkaLogSource)
    spark.read.format("kafka_log").option("level", "records").load("/var/lib/ottla")

Options:
- `path`: a broker's data directory or one partition's directory, as a path or a URL; several by `load([...])`.
- `bootstrap.servers`: a cluster, which is read with Fetch requests. It is used with `command.config` or Kafka's client properties for TLS
  and SASL, and with `max.bytes.per.second`, which limits each task separately.
- `level`: the kind of rows, such as `batches` (the default: one row per batch) or `records`. The module `columns` lists all levels.
- `topic`, `partition`: read only these, comma-separated.
- `start_offset`, `end_offset`, `start_timestamp`, `end_timestamp`: read only this range of offsets, or of timestamps in ms since the epoch.
  The start is included, the end is not.
- `walk`: with `false`, the batches' records are not parsed. The columns that need this are null: `records_found`, `found_max_timestamp`,
  `sparse`, `records_fault`, `marker` and `coordinator_epoch`. The default is `true`. Other levels than `batches` ignore this option.
- `max_bytes_per_trigger`: for streams (`readStream`) only.

With a `.schema(...)` of fewer columns the reader builds only those columns. Filters of a query reach the reader if
`spark.sql.python.filterPushdown.enabled` is true (Spark 4.1 and later). Segments are split into tasks by their offset index; small segments
share a task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ottla.spark_jobs.columns import LEVELS, ddl
from ottla.spark_jobs.paths import is_cluster
from ottla.spark_jobs.spark_tasks import TaskPartition, rows_of
from ottla.spark_jobs.tables import SIDE_FILES, Filters, plan
from ottla.spark_jobs.tables.batches import MARKED, OPENED
from ottla.spark_jobs.wire.address import Address, address

SERVERS: Final = "bootstrap.servers"
NUMBERS: Final = ("start_offset", "end_offset", "start_timestamp", "end_timestamp")
OPTIONS: Final = ("path", "level", "topic", "partition", *NUMBERS, "walk", "max_bytes_per_trigger")
"""The data source's own options. Options with a dot in their names are client properties for reading a cluster."""


class KafkaLogSource(DataSource):
    """The data source `kafka_log`. Its methods raise ValueError for an unknown level or option, a missing path, and an option whose value
    has the wrong type (not a number, or neither `true` nor `false`)."""

    @classmethod
    def name(cls) -> str:
        """Return the data source's name, for `spark.read.format`."""
        return "kafka_log"

    def schema(self) -> str:
        """Return the schema with all columns of the requested level (see the module `columns`)."""
        return ddl(self._level())

    def _filters(self) -> Filters:
        # A misspelt option would restrict nothing.
        unknown = sorted(name for name in self.options if "." not in name and name.lower() not in {*OPTIONS, "paths"})
        if unknown:
            raise ValueError(f"unknown option {unknown[0]!r}: one of {', '.join(OPTIONS)}")
        return filters_of(self.options)

    def reader(self, schema: StructType) -> KafkaLogReader:
        """Return a reader of exactly the columns of `schema`."""
        return KafkaLogReader(self._paths(), self._level(), self._filters(), to_arrow_schema(schema), self._unread())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the stream of appended rows, from the beginning of each log (Spark 4.2 and later)."""
        from ottla.spark_jobs.stream import BYTES_MAX, KafkaLogStreamReader  # noqa: PLC0415 # it needs the read limits of Spark 4.2

        if self._level() in SIDE_FILES:
            raise ValueError(f"level {self._level()} is no stream: its files are written anew, not appended to")
        paths = [path for path in self._paths() if isinstance(path, str) and not is_cluster(path)]
        if len(paths) < len(self._paths()):
            raise ValueError("a cluster is no stream here: only files are followed")
        max_bytes = _number("max_bytes_per_trigger", self.options.get("max_bytes_per_trigger", str(BYTES_MAX)))
        return KafkaLogStreamReader(
            paths, self._level(), self._filters(), to_arrow_schema(schema), unread=self._unread(), max_bytes=max_bytes
        )

    def _paths(self) -> list[str | Address]:
        servers = self.options.get(SERVERS)
        many = self.options.get("paths")
        one = self.options.get("path", "")
        paths: list[str | Address] = json.loads(many) if many else [one] if one or not servers else []
        if not all(paths):
            raise ValueError("kafka_log needs a path: spark.read.format('kafka_log').load(DIR)")
        return [*paths, *([address(servers, self.options)] if servers else [])]

    def _level(self) -> str:
        level: str = self.options.get("level", "batches")
        if level not in LEVELS:
            raise ValueError(f"unknown level {level!r}: one of {', '.join(LEVELS)}")
        return level

    def _unread(self) -> frozenset[str]:
        parsed = _boolean("walk", self.options.get("walk", "true"))
        return frozenset() if parsed or self._level() != "batches" else OPENED | MARKED


def filters_of(options: Mapping[str, str]) -> Filters:
    """Return the filters that are given by the options of the data source, such as `topic` and `start_offset`. Raises ValueError on a
    number that cannot be parsed."""
    ranges = {name: _number(name, options[name]) for name in NUMBERS if options.get(name)}
    topics = frozenset(topic for topic in options.get("topic", "").split(",") if topic)
    partitions = frozenset(_number("partition", each) for each in options.get("partition", "").split(",") if each)
    return Filters(topics, partitions, **ranges)


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"option {name}: {value!r} is not a number") from None


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise ValueError(f"option {name}: must be true or false, not {value!r}")
    return value.lower() == "true"


class _PushFilters:
    """A replacement for `DataSourceReader.pushFilters` that Spark accepts even if filter pushdown is off.

    Spark rejects a reader whose class overrides the method while `spark.sql.python.filterPushdown.enabled` is false. Without that setting
    users should get an unfiltered read, not an error. So the method is an instance attribute whose `__func__` is the inherited method:
    Spark's check compares `__func__`, and finds that the method is not overridden.
    """

    def __init__(self, reader: KafkaLogReader) -> None:
        self._reader = reader
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        """Narrow the reader's filters, and return all filters to Spark, which evaluates them again: the reader uses them only to read
        less."""
        for each in filters:
            self._reader.filters = narrowed(self._reader.level, self._reader.filters, each)
        return filters


class KafkaLogReader(DataSourceReader):
    """The batch reader of the data source `kafka_log`. It divides the logs into tasks on Spark's driver, and reads one task at a time on
    the executors."""

    def __init__(self, paths: list[str | Address], level: str, filters: Filters, schema: pa.Schema, unread: frozenset[str]) -> None:
        self._paths = paths
        self.level = level
        self.filters = filters
        self._schema = schema
        self._unread = unread
        self.pushFilters = _PushFilters(self)  # type: ignore[method-assign] # see `_PushFilters`

    def partitions(self) -> list[TaskPartition]:
        """Return tasks of even size. Spark requires at least one, so without data there is one empty task."""
        tasks = plan(self.level, self._paths, self.filters)
        return [TaskPartition(task, self.filters) for task in tasks or [[]]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one task as Arrow record batches."""
        assert isinstance(partition, TaskPartition)
        return rows_of(self.level, partition, self._schema, self._unread)


RANGES: Final[dict[str, dict[str, str]]] = {
    "batches": {"base_offset": "offset", "last_offset": "offset", "max_timestamp": "timestamp"},
    **{
        level: {"offset": "offset", "timestamp": "timestamp"}
        for level in ("records", "markers", "transactions", "offsets", "groups", "share_states")
    },
}
"""For each level, the columns on which a filter of a Spark query limits what is read, and what the filter limits: the range of offsets or
of timestamps."""


def _both(already: frozenset[Any], given: frozenset[Any]) -> frozenset[Any]:
    """Intersect two sets of wanted values of a filter, in which an empty set means any value. If they have nothing in common, return
    `already`, because an empty result would mean any value; the reader then returns unwanted rows, which Spark drops."""
    return (already & given if already else given) or already


def narrowed(level: str, filters: Filters, pushed: Any) -> Filters:
    """Return `filters` narrowed by one of Spark's pushed filters. Only filters on the topic, the partition and the columns in RANGES narrow
    anything; with any other filter, return `filters` unchanged."""
    attribute: tuple[str, ...] = getattr(pushed, "attribute", ())
    value, kind = getattr(pushed, "value", None), type(pushed).__name__
    column = attribute[0] if len(attribute) == 1 else ""
    equal = kind in {"EqualTo", "EqualNullSafe"} and value is not None
    if column in {"topic", "partition"} and (equal or kind == "In"):
        given = frozenset({value} if equal else {each for each in pushed.value if each is not None})
        if column == "topic":
            return replace(filters, topics=_both(filters.topics, given))
        return replace(filters, partitions=_both(filters.partitions, given))
    axis = RANGES.get(level, {}).get(column)
    if axis is None or not isinstance(value, int):
        return filters
    start, end = f"start_{axis}", f"end_{axis}"
    if equal or kind in {"GreaterThan", "GreaterThanOrEqual"}:
        filters = replace(filters, **{start: max(getattr(filters, start), value + (kind == "GreaterThan"))})
    if equal or kind in {"LessThan", "LessThanOrEqual"}:
        filters = replace(filters, **{end: min(getattr(filters, end), value + (kind != "LessThan"))})
    return filters

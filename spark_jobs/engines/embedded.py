"""The embedded engine: DuckDB in this process, over the same Arrow batches that Spark's data source reads.

Invariants:
- Queries are written in Spark SQL; sqlglot translates each of them once per process. Nulls sort as in Spark.
- Memory is bounded, however long the log is: views are stored compressed in a database file, and a query that exceeds the memory limit
  spills to disk.
- The engine writes nothing but these files. They are in a directory in TMPDIR that is deleted with the engine.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from ottla.spark_jobs.engines import EMBEDDED, MEMORY_MB, ArrowFunction, Row, json_path
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.tables import Filters, read
from ottla.spark_jobs.tables.schemas import ARROW_TYPES

ONE_THREAD_BYTES_MAX: Final = 8 << 20
"""Up to this log size the engine uses one thread and an in-memory database: more threads and a file would cost more time than they save."""
COALESCED_ROWS: Final = 1 << 14
COALESCED_BYTES: Final = 16 << 20
"""Minimum size of the batches that DuckDB gets. DuckDB builds a table for each batch and merges them at the end, so small batches are slow.
"""
NAMES: Final = ("log_dir", "topic", "file")
"""Columns of the view of batches that have few distinct values. They are stored as enums, so that windows and sorts compare numbers; as
strings they would take as many bytes as all other columns together."""
HINT: Final = re.compile(r"/\*\+.*?\*/")
FUNCTIONS: Final = ("CREATE MACRO json_text(json, path) AS TRY(json_extract_string(TRY(decode(json)), path))",)
"""SQL statements that define DuckDB macros for those Spark functions that DuckDB lacks."""
COLUMN_END: Final = re.compile(r", (?=[\w`]+ )")
PARAMETER: Final = re.compile(r"\$(\w+)")


@contextmanager
def embedded_engine(log_bytes: int = 0, memory_mb: int = MEMORY_MB, *, threads: int | None = None) -> Iterator[EmbeddedEngine]:
    """Open a DuckDB engine for logs of this size; it is closed at the end of the `with` block. `memory_mb`: queries that need more memory
    spill to disk. `threads`: None chooses the number by the log's size and the machine."""
    small = log_bytes <= ONE_THREAD_BYTES_MAX
    config: dict[str, str | bool | int] = {"memory_limit": f"{memory_mb}MB", "preserve_insertion_order": False}
    if small or threads:
        config["threads"] = threads or 1
    with tempfile.TemporaryDirectory(prefix="ottla-audit-") as spill:
        database = ":memory:" if small else f"{spill}/views.duckdb"
        with duckdb.connect(database, config={"temp_directory": spill, **config}) as connection:
            for function in FUNCTIONS:
                connection.execute(function)
            yield EmbeddedEngine(connection)


class EmbeddedEngine:
    """Runs the SQL of views and rules on a DuckDB connection; implements `Engine`."""

    name = EMBEDDED

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._failed: OSError | None = None
        """The error that ended the reading of a log, or None. DuckDB replaces it with an error of its own, so `_execute` raises the
        original instead."""

    def json_path(self, field: str) -> str:
        return json_path(field)

    def read(
        self, view: str, level: str, paths: Sequence[str | LogDirectory], topics: Sequence[str], columns: str, *, keep: bool = True
    ) -> None:
        """Read one level of the logs as a DuckDB table (see `Engine.read`). If `keep` is false, no table is made, and the log is read while
        the view's only query runs."""
        schema = arrow_schema(columns)
        batches = coalesced(self._watched(read(level, paths, schema.names, Filters(topics=frozenset(topics)))))
        rows = pa.RecordBatchReader.from_batches(schema, batches)
        if keep:
            self.store_rows(view, rows, self._number_names(paths, topics) if level == "batches" else "")
        else:
            self._connection.register(view, rows)

    def store_batches(self, view: str, rows: pa.RecordBatchReader, paths: Sequence[LogDirectory]) -> None:
        """Make the table that `read` would make of the batches of the logs at `paths`, but from `rows`, which other tasks have already
        read."""
        self.store_rows(view, rows, self._number_names(paths, ()))

    def mapped(self, view: str, batches: Iterable[pa.RecordBatch], query: str, args: Mapping[str, Any]) -> Iterator[pa.Table]:
        """Run a query over many record batches, piece by piece. Small record batches are first merged to larger ones (see `coalesced`). For
        each of these, make it the view `view`, run the query, and yield the result."""
        for batch in coalesced(batches):
            self.register(view, pa.Table.from_batches([batch]))
            text = translated(query)
            yield self._connection.sql(text, params=_named(text, args)).to_arrow_table()

    def _watched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except OSError as e:
            self._failed = e
            raise

    def _number_names(self, paths: Sequence[str | LogDirectory], topics: Sequence[str]) -> str:
        """Create an enum type for each column in NAMES, with the names in the logs in alphabetical order as its values. Return the SQL that
        casts the columns to these types."""
        found = [find_logs(path, topics) for path in paths]
        segments = [segment for logs in found for segment in logs.segments]
        known = {"log_dir": {logs.path for logs in found}, "topic": {s.topic for s in segments}, "file": {s.path for s in segments}}
        for name in NAMES:
            values = ", ".join("'" + value.replace("'", "''") + "'" for value in sorted(known[name]))
            self._connection.execute(f"CREATE TYPE {name}_name AS ENUM ({values})")
        return "REPLACE (" + ", ".join(f"CAST({name} AS {name}_name) AS {name}" for name in NAMES) + ")"

    def table(self, view: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        schema = arrow_schema(columns)
        arrays = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
        self._connection.register(view, pa.Table.from_arrays(arrays, schema=schema))

    def register(self, view: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Define the view `view` with Arrow rows. If they are a RecordBatchReader, only one query can read the view."""
        self._connection.register(view, rows)

    def arrow(self, view: str) -> pa.Table:
        """Return the rows of a view as an Arrow table."""
        return self._connection.table(view).to_arrow_table()

    def batches(self, query: str) -> pa.RecordBatchReader:
        """Return the rows of a query as Arrow record batches. Read all of them before the next query: the next query closes the result."""
        return pa.RecordBatchReader.from_stream(self._connection.sql(translated(query)))

    def store_rows(self, view: str, batches: pa.RecordBatchReader, replaced: str = "") -> None:
        """Make a table named `view` of record batches. `replaced`: a REPLACE clause after `SELECT *`, which changes the type of columns;
        empty: no column is changed."""
        self._connection.register("arriving", batches)
        self._execute(f"CREATE TABLE {view} AS SELECT * {replaced} FROM arriving", {})
        self._connection.unregister("arriving")

    def define(self, view: str, query: str, args: Mapping[str, Any], *, keep: bool = True) -> None:
        """Make a table named `view` of the rows that `query` selects. `args` has the values of the query's parameters. `keep` is ignored: a
        table in memory is cheap enough to keep every view."""
        self._execute(f"CREATE TABLE {view} AS {translated(query)}", args)

    def rows(self, query: str, args: Mapping[str, Any]) -> list[Row]:
        found = self._execute(translated(query), args)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def map_in_arrow(self, query: str, function: ArrowFunction, columns: str) -> list[Row]:
        found = self._connection.sql(translated(query)).to_arrow_reader(COALESCED_ROWS)
        return [row for batch in function(iter(found)) for row in batch.select(arrow_schema(columns).names).to_pylist()]

    def _execute(self, query: str, args: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
        try:
            return self._connection.execute(query, _named(query, args))
        except (duckdb.Error, RuntimeError) as e:
            if str(e) == "Query interrupted" or str(e).rstrip().endswith("\nKeyboardInterrupt"):
                # DuckDB reports Ctrl-C as one of these errors, both while it runs its own code and while Python code produces rows for it.
                raise KeyboardInterrupt from e
            if self._failed is not None:
                raise self._failed from e
            raise


def _named(query: str, args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: args[name] for name in PARAMETER.findall(query)}


def coalesced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge small batches: each batch yielded, except the last, has at least COALESCED_ROWS rows or COALESCED_BYTES bytes."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= COALESCED_ROWS or size >= COALESCED_BYTES:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


@lru_cache(maxsize=256)
def translated(query: str) -> str:
    """Translate a query from Spark's dialect to DuckDB's."""
    return sqlglot.parse_one(HINT.sub("", query), read="spark").transform(_function).sql(dialect="duckdb")


def _function(node: exp.Expr) -> exp.Expr:
    """Return the node of a DuckDB query for a node of Spark's: replace functions that sqlglot does not translate, and functions that fail
    or give null in DuckDB where Spark gives a value."""
    if isinstance(node, exp.JSONExtractScalar) and isinstance(node.this, exp.Cast):
        return exp.func("json_text", node.this.this, node.expression)
    if isinstance(node, exp.CountIf):  # DuckDB's count_if gives null where Spark's gives 0
        return exp.Count(this=exp.Case().when(node.this, exp.Literal.number(1)))
    if isinstance(node, exp.Anonymous) and node.name == "xxhash64":
        return exp.func("hash", *node.expressions)
    return node


def arrow_schema(columns: str) -> pa.Schema:
    """Convert DDL such as `topic string, partition int` to an Arrow schema. Raises KeyError on a type that no column of a log has."""
    fields = (column.strip().rsplit(" ", 1) for column in COLUMN_END.split(columns))
    return pa.schema([(name.strip("`"), ARROW_TYPES[kind]) for name, kind in fields])

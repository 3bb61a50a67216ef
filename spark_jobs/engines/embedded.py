"""The embedded engine: DuckDB in this process, over the Arrow batches that Spark's data source would read.

Rules that hold here: queries come in Spark's SQL and are translated by sqlglot, once per process; nulls sort as in Spark. Memory is
bounded, however long the log is: views lie compressed in a file, and a query that needs more than it is given spills. Nothing is written
but these, in a directory (in TMPDIR) that goes with the engine.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from ottla.spark_jobs.engines import EMBEDDED, MEMORY_MB, Row, json_path
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.tables import Filters, read
from ottla.spark_jobs.tables.schemas import ARROW_TYPES

ONE_THREAD_BYTES_MAX: Final = 8 << 20
"""For so little, threads cost more than they give, and so does a file."""
GATHERED_ROWS: Final = 1 << 14
GATHERED_BYTES: Final = 16 << 20
"""So much is handed over at once: DuckDB makes a table of its own out of each batch that it is given, and puts them together at the end."""
NAMES: Final = ("log_dir", "topic", "file")
"""Columns of level batches with few different values: numbers in windows and sorts, where they are as many bytes as all others together."""
HINT: Final = re.compile(r"/\*\+.*?\*/")
FUNCTIONS: Final = ("CREATE MACRO json_text(json, path) AS TRY(json_extract_string(TRY(decode(json)), path))",)
"""What stands for a function of Spark's that DuckDB does not have."""
COLUMN_END: Final = re.compile(r", (?=[\w`]+ )")
PARAMETER: Final = re.compile(r"\$(\w+)")


@contextmanager
def embedded_engine(log_bytes: int = 0, memory_mb: int = MEMORY_MB, *, threads: int | None = None) -> Iterator[EmbeddedEngine]:
    """An engine for logs of this size that ends with the block. `memory_mb`: what queries may hold before they spill. `threads`: None for
    as many as suit the size and the machine."""
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
    """See `Engine`."""

    name = EMBEDDED

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._failed: OSError | None = None
        """What ended a reading, which DuckDB tells as an error of its own."""

    def json_path(self, field: str) -> str:
        """See `Engine`."""
        return json_path(field)

    def read(
        self, view: str, level: str, paths: Sequence[str | LogDirectory], topics: Sequence[str], columns: str, *, keep: bool = True
    ) -> None:
        """See `Engine`. What is not kept is read when it is queried, once."""
        schema = arrow_schema(columns)
        batches = gathered(self._watched(read(level, paths, schema.names, Filters(topics=frozenset(topics)))))
        self._connection.register(view if not keep else "arriving", pa.RecordBatchReader.from_batches(schema, batches))
        if keep:
            replaced = self._number_names(paths, topics) if level == "batches" else ""
            self._execute(f"CREATE TABLE {view} AS SELECT * {replaced} FROM arriving", {})
            self._connection.unregister("arriving")

    def _watched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except OSError as e:
            self._failed = e
            raise

    def _number_names(self, paths: Sequence[str | LogDirectory], topics: Sequence[str]) -> str:
        """Types for NAMES, whose order is that of the names, and the SQL that makes values of them."""
        found = [find_logs(path, topics) for path in paths]
        segments = [segment for logs in found for segment in logs.segments]
        known = {"log_dir": {logs.path for logs in found}, "topic": {s.topic for s in segments}, "file": {s.path for s in segments}}
        for name in NAMES:
            values = ", ".join("'" + value.replace("'", "''") + "'" for value in sorted(known[name]))
            self._connection.execute(f"CREATE TYPE {name}_name AS ENUM ({values})")
        return "REPLACE (" + ", ".join(f"CAST({name} AS {name}_name) AS {name}" for name in NAMES) + ")"

    def table(self, view: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        """See `Engine`."""
        schema = arrow_schema(columns)
        arrays = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
        self._connection.register(view, pa.Table.from_arrays(arrays, schema=schema))

    def show(self, view: str, table: pa.Table) -> None:
        """Make an Arrow table a view."""
        self._connection.register(view, table)

    def arrow(self, view: str) -> pa.Table:
        """The rows of what was defined as an Arrow table."""
        return self._connection.table(view).to_arrow_table()

    def batches(self, query: str) -> pa.RecordBatchReader:
        """The rows of a query as Arrow record batches, to be read before anything else is asked."""
        return pa.RecordBatchReader.from_stream(self._connection.sql(translated(query)))

    def take(self, view: str, batches: pa.RecordBatchReader) -> None:
        """Make record batches a view."""
        self._connection.register("arriving", batches)
        self._execute(f"CREATE TABLE {view} AS SELECT * FROM arriving", {})
        self._connection.unregister("arriving")

    def define(self, view: str, query: str, args: Mapping[str, Any], *, keep: bool = True) -> None:
        """See `Engine`. Every view is kept: a table in memory costs less than the question whether to."""
        self._execute(f"CREATE TABLE {view} AS {translated(query)}", args)

    def rows(self, query: str, args: Mapping[str, Any]) -> list[Row]:
        """See `Engine`."""
        found = self._execute(translated(query), args)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def write(self, query: str, args: Mapping[str, Any], to: Path) -> None:
        """See `Engine`. One file; the directory appears whole, under its name, when it is done."""
        partial = to.with_name(f".{to.name}.partial")
        partial.mkdir(parents=True)
        try:
            target = str(partial / "part-00000.parquet").replace("'", "''")
            self._execute(f"COPY ({translated(query)}) TO '{target}' (FORMAT parquet)", args)
            partial.rename(to)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def _execute(self, query: str, args: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
        try:
            return self._connection.execute(query, {name: args[name] for name in PARAMETER.findall(query)})
        except (duckdb.Error, RuntimeError) as e:
            if str(e) == "Query interrupted" or str(e).rstrip().endswith("\nKeyboardInterrupt"):
                raise KeyboardInterrupt from e  # Ctrl-C, within DuckDB or within what it reads from
            if self._failed is not None:
                raise self._failed from e
            raise


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are not small, but for the last."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GATHERED_ROWS or size >= GATHERED_BYTES:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


@lru_cache(maxsize=256)
def translated(query: str) -> str:
    """A query of Spark's dialect in DuckDB's."""
    return sqlglot.parse_one(HINT.sub("", query), read="spark").transform(_function).sql(dialect="duckdb")


def _function(node: exp.Expr) -> exp.Expr:
    """Functions that sqlglot leaves as they are, or that fail in DuckDB where Spark gives null."""
    if isinstance(node, exp.JSONExtractScalar) and isinstance(node.this, exp.Cast):
        return exp.func("json_text", node.this.this, node.expression)
    if isinstance(node, exp.CountIf):  # null where Spark gives 0
        return exp.Count(this=exp.Case().when(node.this, exp.Literal.number(1)))
    if isinstance(node, exp.Anonymous) and node.name == "xxhash64":
        return exp.func("hash", *node.expressions)
    return node


def arrow_schema(columns: str) -> pa.Schema:
    """DDL such as `topic string, partition int` as an Arrow schema. Raises KeyError on a type that no level has."""
    fields = (column.strip().rsplit(" ", 1) for column in COLUMN_END.split(columns))
    return pa.schema([(name.strip("`"), ARROW_TYPES[kind]) for name, kind in fields])

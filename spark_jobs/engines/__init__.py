"""The engines that run the SQL of the audit's views and rules: `embedded` (DuckDB in this process, for small logs) and `spark`.

Invariants:
- The SQL is written once, in Spark's dialect; the embedded engine translates it.
- An engine does not know the rules.
- Both engines read the same Arrow batches, so both give the same findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import typer

if TYPE_CHECKING:
    import pyarrow as pa

EMBEDDED: Final = "duckdb"
SPARK: Final = "spark"
AUTO: Final = "auto"
EMBEDDED_BYTES_MAX: Final = 256 << 20
"""The default size, in bytes, of the largest log that is judged in this process: reading such a log takes less time than Spark's start."""

MEMORY_MB: Final = 512
"""The default memory limit of the embedded engine's queries, in MB. The process itself needs about 250 MB more, including the data being
read."""
Memory = Annotated[
    int,
    typer.Option(min=128, help="MB that duckdb's queries may hold; what is more goes to files in TMPDIR. With Spark, those of each task."),
]

Row = Mapping[str, Any]
"""A row of a query's result: its values by column name."""
ArrowFunction = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
Progress = Callable[[str, int, int], None]
"""A callback that shows progress. Its arguments: the name of the current activity, how much of it is finished, and how much it is in total
(steps, partitions or bytes)."""


class Engine(Protocol):
    """The interface of both engines (DuckDB and Spark), which run the audit's SQL. The methods' argument `args` has the values of a query's
    parameters `:name`; values for other names are ignored."""

    @property
    def name(self) -> str:
        """The engine's name, as the verdict reports it: `duckdb` or `spark`."""

    def json_path(self, field: str) -> str:
        """Return the path to a dotted field of a JSON value (`row`, `order.id`) in the engine's syntax. A field that begins with `$` is
        already a path and is returned unchanged."""

    def read(self, view: str, level: str, paths: Sequence[str], topics: Sequence[str], columns: str, *, keep: bool = True) -> None:
        """Read one level of the logs at `paths` as the view `view`. A level is a kind of row, such as `batches` or `records` (see
        `spark_jobs.columns`). `topics`: read only these; empty: all. `columns`: the columns to read, as DDL. `keep`: store the rows,
        because more than one query reads the view."""

    def table(self, view: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        """Define the view `view` with the rows `rows`. `columns`: the names and types of its columns as DDL, such as `topic string,
        partition int`."""

    def define(self, view: str, query: str, args: Mapping[str, Any], *, keep: bool = True) -> None:
        """Define the view `view` with the rows that `query` selects. `args` has the values of the query's parameters. `keep`: store the
        rows, because more than one query reads the view."""

    def rows(self, query: str, args: Mapping[str, Any]) -> list[Row]:
        """Return the rows that a query selects; `args` has the values of its parameters."""

    def map_in_arrow(self, query: str, function: ArrowFunction, columns: str) -> list[Row]:
        """Pass the rows of a query as Arrow record batches through a function, and return the rows that it yields, with these columns
        (DDL). With Spark, each task calls the function with its part of the rows."""


def json_path(field: str) -> str:
    """Return the path to a dotted field of a JSON value in DuckDB's syntax. A field that begins with `$` is already a path and is returned
    unchanged."""
    return field if field.startswith("$") else "$" + "".join(f'."{part}"' for part in field.split("."))


def choose(wanted: str, log_bytes: int, *, spark_runs: bool = True) -> str:
    """Return the engine (`duckdb` or `spark`) for a log of this size. `wanted`: an engine, or `auto`, which chooses by the size; if Spark
    cannot run, it chooses DuckDB. Raises ValueError on an unknown name."""
    if wanted not in {AUTO, EMBEDDED, SPARK}:
        raise ValueError(f"no such engine: {wanted}; one of {AUTO}, {EMBEDDED}, {SPARK}")
    if wanted != AUTO:
        return wanted
    return EMBEDDED if log_bytes <= EMBEDDED_BYTES_MAX or not spark_runs else SPARK

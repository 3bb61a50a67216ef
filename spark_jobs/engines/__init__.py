"""Where the SQL of the views and rules runs: `embedded` (DuckDB, in this process, for small logs) or `spark`.

Rules that hold here: the SQL is written once, in Spark's dialect; the embedded engine translates it. An engine knows nothing of rules.
Both read the same Arrow batches, so they give the same findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import typer

EMBEDDED: Final = "duckdb"
SPARK: Final = "spark"
AUTO: Final = "auto"
EMBEDDED_BYTES_MAX: Final = 256 << 20
"""Logs up to this size are judged in process unless told otherwise: Spark takes longer to start than reading them takes."""

MEMORY_MB: Final = 512
"""What the embedded engine's queries may hold unless told otherwise; the process itself, with what is just being read, takes about 250 MB
more."""
Memory = Annotated[
    int,
    typer.Option(min=128, help="MB that duckdb's queries may hold; what is more goes to files in TMPDIR. With Spark, those of each task."),
]

Row = Mapping[str, Any]
Progress = Callable[[str, int, int], None]
"""Called with what is being done, steps done, and steps in all."""


class Engine(Protocol):
    """What the audit asks of an engine. `args` are the values of `:name` in a query; those that it does not name are ignored."""

    @property
    def name(self) -> str:
        """`duckdb` or `spark`, as the verdict says it."""

    def json_path(self, field: str) -> str:
        """The engine's own path to a dotted field of a JSON value (`row`, `order.id`). What begins with `$` is taken as it is."""

    def read(self, view: str, level: str, paths: Sequence[str], topics: Sequence[str], columns: str, *, keep: bool = True) -> None:
        """Make one level of the logs at `paths` (see `columns`) a view. `columns`: those that are needed, as DDL. `keep`: it is queried
        more than once."""

    def table(self, view: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        """Make given rows a view."""

    def define(self, view: str, query: str, args: Mapping[str, Any], *, keep: bool = True) -> None:
        """Make a query a view. `keep`: it is queried more than once."""

    def rows(self, query: str, args: Mapping[str, Any]) -> list[Row]:
        """The rows of a query."""

    def write(self, query: str, args: Mapping[str, Any], to: Path) -> None:
        """Write the rows of a query as Parquet files into the new directory `to`."""


def json_path(field: str) -> str:
    """The embedded engine's path to a dotted field; see `Engine.json_path`."""
    return field if field.startswith("$") else "$" + "".join(f'."{part}"' for part in field.split("."))


def choose(wanted: str, log_bytes: int, *, spark_runs: bool = True) -> str:
    """The engine for a log of this size; where Spark cannot run and nobody insists on it, the embedded one. Raises ValueError on a name
    that is none."""
    if wanted not in {AUTO, EMBEDDED, SPARK}:
        raise ValueError(f"no such engine: {wanted}; one of {AUTO}, {EMBEDDED}, {SPARK}")
    if wanted != AUTO:
        return wanted
    return EMBEDDED if log_bytes <= EMBEDDED_BYTES_MAX or not spark_runs else SPARK

"""Tables of Parquet, Delta Lake and Iceberg that runs write into: `open_sink` opens one, `files` writes its data files.

Invariants:
- A run first writes data files that no reader sees, in this process or in Spark's tasks. Then one commit on the driver makes all of them
  visible, removes the files that they replace, and stores how far the run came (`Sink.progress`). A run that is killed before its commit
  leaves only files that no reader sees.
- The progress is part of the table, so that it cannot disagree with its rows: a run that continues from it appends each row once.
- Each format has one module, which decides the files' names, how a commit is made, and where the progress is stored. Its library is
  imported when a table is opened.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer

from ottla.protocol.printable import reason_of
from ottla.spark_jobs.paths import absolute, is_url
from ottla.spark_jobs.session import CannotJudge

if TYPE_CHECKING:
    from ottla.spark_jobs.sinks.files import DataFile, Staging
    from ottla.spark_jobs.sinks.schemas import TableSpec


class TableFormat(StrEnum):
    """The formats of tables that the audit and `ottla dedup` can write."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


MODULES: Final = {
    TableFormat.PARQUET: ("parquet_tables", "audit"),
    TableFormat.DELTA: ("delta_tables", "delta"),
    TableFormat.ICEBERG: ("iceberg_tables", "iceberg"),
}
"""The module of each table format, and the name of the pip extra that installs its library."""
TablesOption = Annotated[
    str | None,
    typer.Option(
        "--tables",
        metavar="DIR",
        help="Write the findings to a table in this directory (with --format delta also a URL): findings, or with --follow "
        "followed_findings.",
    ),
]
FormatOption = Annotated[
    TableFormat, typer.Option("--format", help="The tables' format: parquet, delta (Delta Lake) or iceberg (with a catalog in SQLite).")
]


class Sink(Protocol):
    """The interface of an open table in any format (Parquet, Delta Lake, Iceberg), to which a run writes."""

    @property
    def staging(self) -> Staging:
        """The directory and format for this table's new data files."""

    def progress(self, key: str) -> int | None:
        """Return how far earlier runs came: the number that the last commit stored under `key`, None if no commit did."""

    def commit(self, added: Sequence[DataFile], progress: Mapping[str, int], replaced_topics: Collection[str] | None = ()) -> None:
        """Add the files `added`, remove all earlier files of `replaced_topics` (None: of all topics), and store the progress, in one step.
        Progress without files need not be stored: a run that continues from the earlier progress finds no rows there either. Raises
        CannotJudge if another run has changed the table since it was opened, OSError if the table cannot be written."""


def open_sink(kind: TableFormat, directory: str | Path, table: TableSpec) -> AbstractContextManager[Sink]:
    """Open a table for writing, in its subdirectory of `directory`; it is created if it does not exist. Raises CannotJudge if the format's
    library is missing, or if something other than this table is at its path, OSError if the directory cannot be used."""
    require(kind, directory)
    opened: AbstractContextManager[Sink] = _module(kind).open_table(absolute(directory), table)
    return opened


def require(kind: TableFormat, directory: str | Path) -> None:
    """Raise CannotJudge if the format's library is missing, or if tables of the format cannot be written to `directory`. Call it before
    long work."""
    if is_url(directory):
        if kind is not TableFormat.DELTA:
            raise CannotJudge(
                f"{directory}: an object store has no locks and renames, so tables of format {kind} need a directory, which driver and "
                "executors share. Add --format delta, whose commits are safe there"
            )
        from ottla.spark_jobs.filesystem import place  # noqa: PLC0415 # needs pyarrow, which `ottla --help` does not

        try:
            place(str(directory))
        except (OSError, ValueError) as e:
            raise CannotJudge(f"{directory}: {reason_of(e)}") from e
    elif re.match(r"\w+:/", str(directory)):
        raise CannotJudge(f"{directory} was a URL before a Path took away one of its slashes: give it as a string")
    _module(kind)


def _module(kind: TableFormat) -> ModuleType:
    module, extra = MODULES[kind]
    try:
        return import_module(f"ottla.spark_jobs.sinks.{module}")
    except ModuleNotFoundError as e:
        raise CannotJudge(f"Tables of format {kind} need {e.name}, which is not installed. Run: pip install 'ottla[{extra}]'") from e

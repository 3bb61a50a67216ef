"""Tables of Apache Iceberg, by PyIceberg (no JVM), in a catalog in a SQLite file beside the tables.

Invariants:
- A commit is one change of the catalog's pointer to the table's metadata. It contains the new snapshot and, as table properties, the
  progress. If the table has changed since it was opened, the catalog rejects the commit.
- Data files hold the partition columns too, because PyIceberg reads a file's partition from its statistics.
- Files of a run that was killed before its commit stay in the table's directory; Spark's procedure remove_orphan_files deletes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, In
from pyiceberg.table import Table, TableProperties

from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.sinks.files import DataFile, Staging
from ottla.spark_jobs.sinks.schemas import TOPIC, TableSpec

NAME: Final = "ottla"
"""The catalog's name and the namespace of its tables."""
CATALOG: Final = "catalog.db"
PROGRESS: Final = "ottla.progress."

NO_RETRY: Final = {TableProperties.COMMIT_NUM_RETRIES: "0"}
"""Table properties that make PyIceberg report a rejected commit. By default it repeats the commit on top of the other run's commit, which
would append the same rows twice."""


@contextmanager
def open_catalog(directory: Path) -> Iterator[SqlCatalog]:
    """Open the Iceberg catalog of the tables in `directory` (a SQLite file there) until the end of the `with` block. It is created if it
    does not exist."""
    directory.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(NAME, uri=f"sqlite:///{directory / CATALOG}", warehouse=f"file://{directory}")
    try:
        catalog.create_namespace_if_not_exists(NAME)
        yield catalog
    finally:
        catalog.close()


@contextmanager
def open_table(directory: str, table: TableSpec) -> Iterator[IcebergTable]:
    """Open the Iceberg table in its subdirectory of `directory`; it is created if it does not exist. Raises CannotJudge if the subdirectory
    holds other files, or a table with other columns."""
    root = Path(directory) / table.name
    with open_catalog(root.parent) as catalog:
        known = catalog.table_exists((NAME, table.name))
        if not known and root.exists() and any(root.glob("data/*")):
            raise CannotJudge(f"{root} holds other files: name a new directory, or one that Ottla wrote")
        opened = catalog.create_table_if_not_exists((NAME, table.name), table.schema, location=f"file://{root}", properties=NO_RETRY)
        if opened.spec().is_unpartitioned():  # the table is new, or its first run was killed here
            with opened.update_spec() as spec:
                for column in table.partition_by:
                    spec.add_identity(column)
        if not NO_RETRY.items() <= opened.properties.items():
            with opened.transaction() as transaction:
                transaction.set_properties(NO_RETRY)
        if [field.name for field in opened.schema().fields] != table.schema.names:
            raise CannotJudge(f"{root} is a table with other columns: name a new directory")
        yield IcebergTable(opened, root, table)


class IcebergTable:
    """An open table of Apache Iceberg, to which a run writes (a `Sink`)."""

    def __init__(self, opened: Table, root: Path, table: TableSpec) -> None:
        self._table = opened
        self._root = root
        self.staging = Staging(str(root / "data"), table, keeps_partition_columns=True)

    def progress(self, key: str) -> int | None:
        found = self._table.properties.get(PROGRESS + key)
        return None if found is None else int(found)

    def commit(self, added: Sequence[DataFile], progress: Mapping[str, int], replaced_topics: Collection[str] | None = ()) -> None:
        """Add the files `added`, remove all earlier files of `replaced_topics` (None: of all topics), and store the progress, in one
        transaction. Raises CannotJudge if another run has changed the table since it was opened."""
        replaced: BooleanExpression = AlwaysTrue()
        if replaced_topics is not None:
            replaced = In(TOPIC, sorted(replaced_topics))  # type: ignore[call-arg,arg-type] # PyIceberg's own use; of no topic it is false
        try:
            with self._table.transaction() as transaction:
                if any(True for _ in self._table.scan(row_filter=replaced).plan_files()):
                    transaction.delete(replaced)
                if added:
                    transaction.add_files([f"file://{self.staging.directory}/{each.path}" for each in added])
                if progress:
                    transaction.set_properties({PROGRESS + key: str(number) for key, number in progress.items()})
        except CommitFailedException as e:
            raise CannotJudge(f"another run has changed {self._root} meanwhile: run this again") from e

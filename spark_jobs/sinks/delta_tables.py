"""Tables of Delta Lake, by delta-rs (no JVM).

Invariants:
- A commit is one version of the table. The progress is stored in the version's `txn` actions, by which Delta lets a writer find out which
  of its commits were made; each progress key is an application id. If two runs commit the same key at once, delta-rs rejects the second
  one.
- In an object store, delta-rs creates a version's file only if it does not exist (a conditional put), so two runs cannot both commit it.
- Files of a run that was killed before its commit stay in the table's directory until `DeltaTable.vacuum` deletes them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qsl

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from ottla.spark_jobs.filesystem import Location, place
from ottla.spark_jobs.paths import below, is_url
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.sinks.files import DataFile, Staging
from ottla.spark_jobs.sinks.schemas import TableSpec


@contextmanager
def open_table(directory: str, table: TableSpec) -> Iterator[DeltaLakeTable]:
    """Open the Delta Lake table in its subdirectory of `directory`, a path or a URL; it is created if it does not exist. Raises CannotJudge
    if the subdirectory holds other files or a table with other columns, or if delta-rs fails, OSError if the directory cannot be read."""
    where = place(below(directory, table.name))
    options = storage_options(where.url)
    try:
        is_table = DeltaTable.is_deltatable(where.path, options)
        if not is_table and where.is_dir(where.path) and where.entries(where.path):
            raise CannotJudge(f"{where.path} holds other files: name a new directory, or one that Ottla wrote")
        opened = DeltaTable.create(where.path, table.schema, mode="ignore", partition_by=list(table.partition_by), storage_options=options)
    except DeltaError as e:
        raise CannotJudge(f"{where.path}: {e}") from e
    if [field.name for field in opened.schema().fields] != table.schema.names:
        raise CannotJudge(f"{where.path} is a table with other columns: name a new directory")
    yield DeltaLakeTable(opened, where, table)


def storage_options(url: str) -> dict[str, str]:
    """Return the options in a URL of an object store (after `?`, see `filesystem`) as delta-rs's settings, such as AWS_REGION. Credentials
    are not among them: delta-rs reads them from the environment."""
    given = dict(parse_qsl(url.partition("?")[2])) if is_url(url) else {}
    scheme = given.get("scheme", "https")
    options = {"AWS_REGION": given.get("region"), "AWS_ALLOW_HTTP": "true" if scheme == "http" else None}
    if "endpoint_override" in given:
        options["AWS_ENDPOINT_URL"] = f"{scheme}://{given['endpoint_override']}"
    return {name: value for name, value in options.items() if value is not None}


class DeltaLakeTable:
    """An open table of Delta Lake, to which a run writes (a `Sink`)."""

    def __init__(self, opened: DeltaTable, where: Location, table: TableSpec) -> None:
        self._table = opened
        self._spec = table
        self._root = where.path
        self.staging = Staging(where.url, table)

    def progress(self, key: str) -> int | None:
        return self._table.transaction_version(key)

    def commit(self, added: Sequence[DataFile], progress: Mapping[str, int], replaced_topics: Collection[str] | None = ()) -> None:
        """Add the files `added`, remove all earlier files of `replaced_topics` (None: of all topics), and store the progress, as one
        version of the table. Raises CannotJudge if another run has changed the table since it was opened."""
        now = time.time_ns() // 1_000_000
        adds = [AddAction(each.path, each.size_bytes, each.partition, now, True, json.dumps({"numRecords": each.rows})) for each in added]
        removes = [RemoveAction(path, True, now) for path in self._paths_of(replaced_topics)]
        properties = CommitProperties(app_transactions=[Transaction(key, number, now) for key, number in progress.items()])
        try:
            self._table.create_write_transaction(
                [*adds, *removes], "append", self._spec.schema, list(self._spec.partition_by), commit_properties=properties
            )
        except CommitFailedError as e:
            raise CannotJudge(f"another run has changed {self._root} meanwhile: run this again") from e

    def _paths_of(self, topics: Collection[str] | None) -> Iterator[str]:
        for row in pa.table(self._table.get_add_actions(flatten=True)).select(["path", "partition.topic"]).to_pylist():
            if topics is None or row["partition.topic"] in topics:
                yield row["path"]

"""Tables of Delta Lake, by delta-rs (no JVM).

Invariants:
- A commit is one version of the table. The progress is in the version's `txn` actions, Delta's own means for writers that repeat: each
  key is an application id. If two runs commit the same key at once, delta-rs rejects the second one.
- Files of a run that was killed before its commit stay in the table's directory until `DeltaTable.vacuum` deletes them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.sinks.files import DataFile, Staging
from ottla.spark_jobs.sinks.schemas import TableSpec


@contextmanager
def open_table(directory: Path, table: TableSpec) -> Iterator[DeltaLakeTable]:
    """Open a table; see `sinks.open_sink`."""
    root = directory / table.name
    try:
        if not DeltaTable.is_deltatable(str(root)) and root.exists() and any(root.iterdir()):
            raise CannotJudge(f"{root} holds other files: name a new directory, or one that Ottla wrote")
        opened = DeltaTable.create(root, table.schema, mode="ignore", partition_by=list(table.partition_by))
    except DeltaError as e:
        raise CannotJudge(f"{root}: {e}") from e
    if [field.name for field in opened.schema().fields] != table.schema.names:
        raise CannotJudge(f"{root} is a table with other columns: name a new directory")
    yield DeltaLakeTable(opened, root, table)


class DeltaLakeTable:
    """A `Sink` of Delta Lake."""

    def __init__(self, opened: DeltaTable, root: Path, table: TableSpec) -> None:
        self._table = opened
        self._spec = table
        self._root = root
        self.staging = Staging(root, table)

    def progress(self, key: str) -> int | None:
        return self._table.transaction_version(key)

    def commit(self, added: Sequence[DataFile], progress: Mapping[str, int], replaced_topics: Collection[str] | None = ()) -> None:
        """See `Sink.commit`."""
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

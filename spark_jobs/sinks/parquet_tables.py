"""Tables of plain Parquet files, in Hive's directories (`topic=orders/date=2026-01-31/`), with a journal.

Invariants:
- A commit first replaces the journal, the file `state.json`, which lists the files to remove and to add, and then removes and adds these
  files. If the run is killed in between, the next run completes the commit. Until then a reader may miss rows, but sees none twice, because
  files are removed before others are added.
- The journal and the staged files are in the directory `_ottla` of the table, which readers of Parquet directories ignore; staged files do
  not end in `.parquet`.
- One run at a time writes to a table: it holds a lock.

    TABLE/topic=…/date=…/*.parquet   the data
    TABLE/_ottla/state.json          progress, and the files of a commit in progress
    TABLE/_ottla/staged/             files that are not committed
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ottla.spark_jobs.durable import sync_directory, write_atomically
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.sinks.files import DataFile, Staging
from ottla.spark_jobs.sinks.schemas import TableSpec

OURS: Final = "_ottla"
STATE: Final = "state.json"
STAGED: Final = ".staged"


@contextmanager
def open_table(directory: str, table: TableSpec) -> Iterator[ParquetTable]:
    """Open the table in its subdirectory of `directory`, which is created if it does not exist, and lock it until the `with` block ends. If
    an earlier run was killed during its commit, that commit is completed first. Raises CannotJudge if the subdirectory holds files that are
    not the table's or another run has locked the table, OSError if it cannot be written."""
    root = Path(directory) / table.name
    ours = root / OURS
    if root.exists() and not ours.is_dir() and any(root.iterdir()):
        raise CannotJudge(f"{root} holds other files: name a new directory, or one that Ottla wrote")
    ours.mkdir(parents=True, exist_ok=True)
    with (ours / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise CannotJudge(f"another run writes to {root}: wait for its end") from e
        opened = ParquetTable(root, table)
        opened.recover()
        yield opened


class ParquetTable:
    """An open table of plain Parquet files, to which a run writes (a `Sink`)."""

    def __init__(self, root: Path, table: TableSpec) -> None:
        self._root = root
        self._staged = root / OURS / "staged"
        self.staging = Staging(str(self._staged), table, suffix=STAGED)
        self._file = root / OURS / STATE
        self._state: dict[str, Any] = json.loads(self._file.read_text("utf-8")) if self._file.exists() else {}

    def progress(self, key: str) -> int | None:
        found: int | None = self._state.get("progress", {}).get(key)
        return found

    def commit(self, added: Sequence[DataFile], progress: Mapping[str, int], replaced_topics: Collection[str] | None = ()) -> None:
        """Add the staged files `added`, remove all earlier files of `replaced_topics` (None: of all topics), and store the progress. If the
        process is killed meanwhile, the next run completes the commit. Raises OSError if the table cannot be written."""
        removed = [
            file.relative_to(self._root).as_posix()
            for file in self._root.glob("topic=*/**/*.parquet")
            if replaced_topics is None or DataFile(file.relative_to(self._root).as_posix(), 0, 0).partition["topic"] in replaced_topics
        ]
        known = self._state.get("progress", {}) | progress
        self._write({"progress": known, "remove": removed, "add": [file.path for file in added]})
        self._carry_out()

    def recover(self) -> None:
        """Complete the commit of an earlier run that was killed during its commit, and delete the staged files of a run that was killed
        before its commit."""
        self._carry_out()
        shutil.rmtree(self._staged, ignore_errors=True)

    def _carry_out(self) -> None:
        changed = set()
        for name in self._state.get("remove", ()):
            file = self._root / name
            file.unlink(missing_ok=True)
            changed.add(file.parent)
        for name in self._state.get("add", ()):
            staged = self._staged / name
            if staged.exists():
                file = (self._root / name).with_suffix(".parquet")
                file.parent.mkdir(parents=True, exist_ok=True)
                staged.rename(file)
                changed |= {file.parent, file.parent.parent}
        for directory in filter(Path.is_dir, changed):
            sync_directory(directory)
        if "add" in self._state:
            self._write({"progress": self._state["progress"]})

    def _write(self, state: dict[str, Any]) -> None:
        content = json.dumps(state).encode()
        write_atomically(self._file, lambda out: out.write(content))
        self._state = state

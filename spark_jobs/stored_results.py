"""Stores the results of tasks in a directory, so that a restarted audit judges only the partitions without a result.

Invariants:
- A result is one file, named after the partitions that it covers. It gets its name only when it is complete and on disk, so a killed task
  leaves no result.
- A partition is identified by a digest of its listing (names, sizes and modification times of its files, and the broker's checkpoints), of
  the run's options and of the audit's source code. If any of them changes, the partition is judged again.
- Reading a result runs no code from it: of pickled data, only built-in values are accepted.
"""

from __future__ import annotations

import io
import os
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.spark_jobs.durable import sync_directory
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.steps import AuditSpec

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

Row = tuple[int, bytes]
"""A row that tasks exchange: the number of the shuffle partition that it belongs to, and pickled data (see `audit_tasks`)."""
SCHEMA: Final = pa.schema({"share": pa.int32(), "content": pa.binary()})
"""The columns of a file with a task's result. Each `Row` of the result becomes one row: `share` is the number of the shuffle partition,
`content` the pickled data."""
RESULT: Final = ".result"
PARTIAL: Final = ".partial"
PARTITIONS: Final = b"partitions"
"""In a result file's metadata, the key of the list of partitions that the result is about, each as its digest."""
CODE: Final = ("ottla.spark_jobs", "ottla.protocol")
"""The packages whose source code determines the findings. If it changes, stored results are not reused."""


@dataclass(frozen=True, slots=True)
class StoredResults:
    """The stored results of an audit's tasks in `directory`, which the driver and all tasks share. `run`: a digest of the audit's options
    and source code."""

    directory: Path
    run: str

    @classmethod
    def open(cls, directory: Path, spec: AuditSpec, shuffle_partitions: int) -> StoredResults:
        """Return the stored results in `directory`, which is created if it is missing. Only results of runs with the same options and
        source code are reused. Incomplete results of killed tasks are removed. Raises OSError if the directory cannot be used."""
        directory.mkdir(parents=True, exist_ok=True)
        for partial in directory.glob("*" + PARTIAL):
            partial.unlink(missing_ok=True)
        identity = replace(spec, whole_states=(), topic_ids=())  # only the second step, which always runs, reads them
        return cls(directory, sha256(f"{code_digest()} {identity!r} {shuffle_partitions}".encode()).hexdigest())

    def digest(self, partitions: Iterable[LogDirectory]) -> str:
        """Return the digest of partitions that are always judged in the same task. It changes if the partitions' listings, the run's
        options or the audit's source code change."""
        return sha256(f"{self.run} {list(partitions)!r}".encode()).hexdigest()

    def results(self) -> Iterator[frozenset[str]]:
        """Yield, for each complete stored result, the digests of the partitions that it covers. Raises OSError if a file cannot be read."""
        for path in sorted(self.directory.glob("*" + RESULT)):
            with suppress(pa.ArrowException, KeyError), pa.OSFile(str(path)) as file:
                yield frozenset((pa.ipc.open_file(file).schema.metadata or {})[PARTITIONS].decode().split())

    def load_or_judge(self, digests: Iterable[str], judge: Callable[[], Iterable[Row]]) -> Iterator[Row]:
        """Yield the rows of the stored result for the partitions with these digests. If there is no result, or it is damaged, first call
        `judge`, and store the rows that `judge` returns as the result. Raises OSError if the result cannot be read or written."""
        covered = " ".join(sorted(digests))
        path = self.directory / (sha256(covered.encode()).hexdigest() + RESULT)
        if not _is_sound(path):
            _write(path, {PARTITIONS: covered.encode()}, judge())
        yield from _rows(path)


def code_digest() -> str:
    """Return a digest of the source code of the packages in CODE, from a directory or a zip file, whichever they are imported from."""
    found = sha256()
    for package in CODE:
        for source in _sources(files(package)):
            found.update(source.name.encode() + source.read_bytes())
    return found.hexdigest()


def _sources(directory: Traversable) -> Iterator[Traversable]:
    for each in sorted(directory.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _sources(each)
        elif each.name.endswith(".py"):
            yield each


def _write(path: Path, metadata: dict[bytes, bytes], rows: Iterable[Row]) -> None:
    """Write a result under a unique temporary name, because two attempts of a task may run at once, then rename it."""
    partial = path.with_suffix(f".{uuid.uuid4().hex}{PARTIAL}")
    try:
        with partial.open("xb") as file:
            with pa.ipc.new_file(file, SCHEMA.with_metadata(metadata)) as writer:
                for number, content in rows:
                    writer.write_batch(pa.record_batch([pa.array([number], pa.int32()), pa.array([content], pa.binary())], schema=SCHEMA))
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def _rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a task's stored result. Raises OSError if the file cannot be read; if it is damaged, pa.ArrowException or one of
    the exceptions that unpickling raises."""
    with pa.OSFile(str(path)) as file:
        result = pa.ipc.open_file(file)
        for i in range(result.num_record_batches):
            row = result.get_batch(i).to_pydict()
            _Values(io.BytesIO(row["content"][0])).load()
            yield row["share"][0], row["content"][0]


def _is_sound(path: Path) -> bool:
    try:
        for _ in _rows(path):
            pass
    except (FileNotFoundError, pa.ArrowException, pickle.UnpicklingError, EOFError, ValueError, LookupError):
        return False
    return True


class _Values(pickle.Unpickler):
    """An unpickler of built-in values, which runs no code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not a value")

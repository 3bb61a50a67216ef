"""Logs wherever they are: in files, on brokers, or as they were listed before. Nobody above asks which."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ottla.spark_jobs.filesystem import is_cluster
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.log_files import find_file_logs
from ottla.spark_jobs.pins import PINNED, pinned
from ottla.spark_jobs.segment_reader import Part, Run, Stop, file_runs
from ottla.spark_jobs.wire.address import Address

P = TypeVar("P", str, str | Path, str | Path | Address | LogDirectory)


def find_logs(path: str | Path | Address | LogDirectory, topics: Collection[str] = ()) -> LogDirectory:
    """All segments at `path`: of a directory (see `log_files`), of a cluster where it is `kafka://…` (see `wire`), or what was listed
    before where it is `pinned:…` (see `pins`), or itself what was found before. `topics`: only these (empty: all).

    Raises nothing for what it finds: a missing directory, or a broker that does not answer, is a problem in the answer.
    """
    if isinstance(path, LogDirectory):
        return path.of_topics(topics)
    if isinstance(path, Address) or is_cluster(path):
        from ottla.spark_jobs.wire.find import find_wire_logs  # noqa: PLC0415 # only where brokers are read

        return find_wire_logs(path if isinstance(path, Address) else str(path), topics)
    if str(path).startswith(PINNED):
        return pinned(str(path), topics)
    return find_file_logs(path, topics)


def one_or_more(given: P | Sequence[P]) -> list[P]:
    """A path or a topic may stand without a list: as one, its letters would be taken for paths."""
    return [given] if isinstance(given, (str, Path, Address, LogDirectory)) else list(given)


def read_runs(part: Part, *, bodies: bool = True) -> Iterator[Run | Stop]:
    """The part in the order of its log. `bodies`: batches whole, not only their headers; a broker gives them whole in any case.

    Raises OSError when the file cannot be read, WireError when the broker cannot."""
    if is_cluster(part.segment.log_dir):
        from ottla.spark_jobs.wire.runs import wire_runs  # noqa: PLC0415 # as above

        return wire_runs(part.segment)
    return file_runs(part, bodies=bodies)

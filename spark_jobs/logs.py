"""Reads logs in any place: from files, from brokers, or from an earlier listing. Callers do not need to distinguish them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.log_files import find_file_logs
from ottla.spark_jobs.paths import is_cluster
from ottla.spark_jobs.pins import PINNED, pinned
from ottla.spark_jobs.segment_reader import Part, Run, Stop, file_runs
from ottla.spark_jobs.wire.address import Address

P = TypeVar("P", str, str | Path, str | Path | Address | LogDirectory)


def find_logs(path: str | Path | Address | LogDirectory, topics: Collection[str] = ()) -> LogDirectory:
    """List all segments at `path`: a directory (see `log_files`), a cluster `kafka://…` (see `wire`), an earlier listing `pinned:…` (see
    `pins`), or a `LogDirectory`. `topics`: only these (empty: all).

    The function raises no errors for the state of the logs: a missing directory or an unreachable broker is a problem in the result.
    """
    if isinstance(path, LogDirectory):
        return path.of_topics(topics)
    if isinstance(path, Address) or is_cluster(path):
        from ottla.spark_jobs.wire.find import find_wire_logs  # noqa: PLC0415 # only if logs are read from brokers

        return find_wire_logs(path if isinstance(path, Address) else str(path), topics)
    if str(path).startswith(PINNED):
        return pinned(str(path), topics)
    return find_file_logs(path, topics)


def one_or_more(given: P | Sequence[P]) -> list[P]:
    """Return the argument as a list; a single path or topic becomes a list of one. Otherwise a string would be iterated by its letters."""
    return [given] if isinstance(given, (str, Path, Address, LogDirectory)) else list(given)


def read_runs(part: Part, *, bodies: bool = True) -> Iterator[Run | Stop]:
    """Yield the batches of a part of a segment as runs (several adjacent batches at once), and a `Stop` for each range of bytes that is not
    a batch, in log order. `bodies`: read batches whole, not only their headers; a broker always sends them whole.

    Raises OSError when the file cannot be read, WireError when the broker fails.
    """
    if is_cluster(part.segment.log_dir):
        from ottla.spark_jobs.wire.runs import wire_runs  # noqa: PLC0415 # only if logs are read from brokers

        return wire_runs(part.segment)
    return file_runs(part, bodies=bodies)

"""A file system of computed logs: it lists any number of segments, and computes their contents when they are read, without a disk.

`formula://PxS` has P partitions of topic `t` with S segments each, and a segment is one batch. `formula://PxSxB` lists the segments with B
bytes each instead, each with an offset index and a time index, to plan an audit of a large log; they cannot be read.
"""

from __future__ import annotations

import io
import resource
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

import fsspec
from fsspec.spec import AbstractFileSystem

from client_compat.bench_audit.logs import T0
from ottla.protocol.records.batch import HEADER_BYTES, pack_header, read_header
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs.audit_tasks import plan, serialized
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.steps import AuditSpec

RECORDS: Final = 10
"""The number of records in each computed segment."""
INDEX_BYTES: Final = 1 << 20
SCHEME: Final = "formula"
CORES: Final = 100
RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


class FormulaFileSystem(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """A read-only fsspec file system over computed segments (paths: see the module). `listings` counts the listed directories."""

    protocol = SCHEME
    listings: ClassVar[int] = 0

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return name, type and size of the root, a partition directory or a segment's `.log` file, as fsspec's `info` does.

        Raises FileNotFoundError for any other path, including the index files that `ls` lists.
        """
        root, *below = self._strip_protocol(path).strip("/").split("/")
        partitions, segments, *_size = _numbers(root)
        match below:
            case []:
                return _directory(root)
            case [partition] if partition.startswith("t-") and int(partition[2:]) < partitions:
                return _directory(f"{root}/{partition}")
            case [partition, name] if name.endswith(".log") and int(name[:20]) // RECORDS < segments:
                return self._segment(root, partition, int(name[:20]) // RECORDS)
        raise FileNotFoundError(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Return the entries of the directory at `path`, as fsspec's `ls` does: dicts of name, type and size with `detail`, otherwise
        names."""
        root, *below = self._strip_protocol(path).strip("/").split("/")
        partitions, segments, *size = _numbers(root)
        FormulaFileSystem.listings += 1
        if below:
            found = [self._segment(root, below[0], i) for i in range(segments)]
            if size:
                indexes = [each["name"].removesuffix("log") + kind for each in found for kind in ("index", "timeindex")]
                found += [{"name": name, "type": "file", "size": INDEX_BYTES} for name in indexes]
        else:
            found = [_directory(f"{root}/t-{i}") for i in range(partitions)]
        return found if detail else [each["name"] for each in found]

    def _open(self, path: str, **_: Any) -> io.BytesIO:
        self.info(path)
        _, partition, name = self._strip_protocol(path).strip("/").split("/")
        return io.BytesIO(segment(int(partition.removeprefix("t-")), int(name[:20]) // RECORDS))

    @staticmethod
    def _segment(root: str, partition: str, number: int) -> dict[str, Any]:
        size = (_numbers(root)[2:] or [len(segment(0, 0))])[0]
        return {"name": f"{root}/{partition}/{number * RECORDS:020d}.log", "type": "file", "size": size}


def register() -> None:
    """Register the URL scheme `formula` with fsspec in this process."""
    fsspec.register_implementation(SCHEME, FormulaFileSystem, clobber=True)


def _directory(name: str) -> dict[str, Any]:
    return {"name": name, "type": "directory", "size": 0}


@lru_cache(maxsize=16)
def _numbers(root: str) -> list[int]:
    return [int(each) for each in root.split("x")]


@lru_cache(maxsize=1)
def _template() -> bytes:
    records = [SimpleRecord(None, b"x" * 100, T0) for _ in range(RECORDS)]
    return build_batch(records, producer_id=0, producer_epoch=0, base_sequence=0, leader_epoch=0)


def segment(partition: int, number: int) -> bytes:
    """Return the content of segment `number` of a partition: one batch, which continues the segments before."""
    head, tail = read_header(_template()), _template()[HEADER_BYTES:]
    at = number * RECORDS
    return pack_header(head._replace(base_offset=at, producer_id=partition, base_sequence=at), tail) + tail


@dataclass(frozen=True, slots=True)
class Planned:
    """The cost of planning an audit. `task_bytes`: the size of all serialized tasks, which Spark sends to its executors; `peak_bytes`: the
    peak memory of this process; `listings`: the number of listed directories."""

    segments: int
    tasks: int
    listings: int
    task_bytes: int
    listing_seconds: float
    planning_seconds: float
    cpu_seconds: float
    peak_bytes: int


def planned(partitions: int, segments: int, segment_bytes: int = 1 << 30) -> Planned:
    """List the files of an audit with this number of partitions and of segments per partition, and plan its tasks, as Spark's driver does
    for a cluster of CORES cores. The segments are computed (see `FormulaFileSystem`), not stored on disk. Return the time and memory that
    this took."""
    register()
    FormulaFileSystem.listings = 0
    started, cpu = time.perf_counter(), time.process_time()
    logs = find_logs(f"{SCHEME}://{partitions}x{segments}x{segment_bytes}")
    listed = time.perf_counter()
    plans = plan([logs], AuditSpec((), None, False, False, 10, {}), CORES)
    sent = sum(len(serialized(task)) for task in plans.tasks) + sum(len(serialized(each)) for each in plans.slices)
    return Planned(
        len(logs.segments),
        plans.tasks_first_step,
        FormulaFileSystem.listings,
        sent,
        listed - started,
        time.perf_counter() - listed,
        time.process_time() - cpu,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT,
    )

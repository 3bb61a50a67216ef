"""Estimates what an audit on Spark costs, from a listing of the log files alone: no record is read, and Spark is not started.

Invariants:
- The constants were measured (docs/audit-speed.md); they are CPU seconds on one core of the machine named there.
- Requests are those to an object store: for each file a HEAD, and a GET for every 4 MiB (WINDOW_BYTES); and a LIST per 1,000 names. The
  driver makes the LIST requests, the tasks make all others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.protocol.printable import printable
from ottla.spark_jobs.audit_tasks import partitions_of, plan, size_of
from ottla.spark_jobs.log_directory import LogDirectory, SideFile
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.paths import absolute
from ottla.spark_jobs.segment_reader import ROWS_MAX, WINDOW_BYTES
from ottla.spark_jobs.session import cores_of
from ottla.spark_jobs.steps import AuditSpec
from ottla.spark_jobs.verdict import counted

START_S: Final = 4.0
"""The CPU seconds that Spark's driver and its JVM take in a run, whatever the log's size."""
WORKER_S: Final = 0.7
"""The CPU seconds that the start of one of Spark's Python workers takes."""
TASK_S: Final = 0.12
FILE_S: Final = 0.0007
GB_S: Final = 1.4
"""CPU seconds per GB of log for the rules that read only batch headers; every audit has these rules."""
DEEP_GB_S: Final = 23.5
"""Additional CPU seconds per GB of log with --deep, which compares the records' contents (measured with 100-byte records)."""
KEY_GB_S: Final = 75.0
"""Additional CPU seconds per GB of log with --key-field, which reads a business key in each record (measured with 100-byte records)."""
LIST_NAMES: Final = 1000
CHECKPOINT_REQUESTS: Final = 8
"""The number of requests to an object store for the four checkpoint files of a data directory: a HEAD and a GET for each."""
ENTRY_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated cost of an audit on Spark. `size_bytes`: the size of all segments, which are read twice with --deep or --key-field.
    `requests`: the number of requests to an object store."""

    size_bytes: int
    partitions: int
    segments: int
    tasks: int
    requests: int
    cpu_seconds: float

    @property
    def core_hours(self) -> float:
        """The estimated CPU time of the audit in core-hours."""
        return self.cpu_seconds / 3600


def estimate(logs: Sequence[LogDirectory], spec: AuditSpec, cores: int) -> Estimate:
    """Return the estimated cost of an audit of `logs` on a cluster with `cores` cores."""
    planned = plan(logs, spec, cores)
    tasks = planned.tasks_first_step
    judged = [found for task in planned.judged for found in task]
    segments = [segment for found in judged for segment in found.segments]
    size = size_of(judged)
    per_gb = GB_S + (DEEP_GB_S if spec.deep else 0) + (KEY_GB_S if spec.key_place is not None else 0)
    seconds = START_S + WORKER_S * min(cores, tasks) + TASK_S * tasks + FILE_S * len(segments) + per_gb * size / 1e9
    passes = 2 if spec.deep or spec.key_place is not None else 1
    reads = passes * sum(1 + _pieces(segment.size_bytes, WINDOW_BYTES) for segment in segments)
    reads += sum(_side_reads(file) for found in judged for file in found.side_files)
    return Estimate(size, partitions_of(planned.judged), len(segments), tasks, _listing(logs) + reads, seconds)


def estimate_command(paths: Sequence[str], spec: AuditSpec, master: str | None = None) -> int:
    """List the logs, and print the estimated cost of the audit: Spark tasks, requests to an object store, and CPU time with the cores of
    Spark's `master`. Return the exit code: 2 if something could not be listed, else 0."""
    logs = [find_logs(absolute(path)) for path in paths]
    known = cores_of(master)
    cores = known or os.cpu_count() or 1
    found = estimate(logs, spec, cores)
    print(f"Log:          {found.size_bytes / 1e9:,.2f} GB in {found.segments:,} segments of {counted(found.partitions, 'partition')}")
    print(f"Spark tasks:  {found.tasks:,} that read logs, with {_cores_text(cores, known)}")
    print(f"Requests:     {found.requests:,}, if the log is in an object store")
    print(f"CPU time:     {found.core_hours:.3f} core-hours ({found.cpu_seconds:,.0f} s)")
    problems = [problem for each in logs for problem in each.of_topics(spec.topics).problems]
    for problem in problems:
        print(printable(f"could not list: {problem}"), file=sys.stderr)
    return 2 if problems else 0


def _cores_text(cores: int, known: int | None) -> str:
    text = counted(cores, "core")
    return text if known else f"{text} as on this machine: the master tells its own only to a running application"


def _side_reads(file: SideFile) -> int:
    """Return the number of object-store requests for reading a file beside a segment. An index takes requests for its size, for the search
    for its last entry, and for its entries. Other files are read in one piece."""
    if file.kind in {"index", "timeindex", "txnindex"}:
        return 1 + _pieces(file.size_bytes, WINDOW_BYTES) + _pieces(file.size_bytes, ROWS_MAX * ENTRY_BYTES)
    return 2


def _listing(logs: Sequence[LogDirectory]) -> int:
    """Return the number of requests that listing the logs took: those for the root directory, and one per page of each partition's
    directory."""
    pages = 0
    for found in logs:
        names: dict[tuple[str, int], int] = {}
        for file in (*found.segments, *found.side_files):
            names[file.topic, file.partition] = names.get((file.topic, file.partition), 0) + 1
        pages += CHECKPOINT_REQUESTS + _pieces(len(names), LIST_NAMES) + sum(_pieces(count, LIST_NAMES) for count in names.values())
    return pages


def _pieces(size: int, each: int) -> int:
    return -(-size // each)

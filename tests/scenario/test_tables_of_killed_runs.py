"""`ottla dedup` is killed at random moments while its log grows: each committed record is in the table once, as another engine reads it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.spark_jobs.dedup import dedup
from ottla.spark_jobs.sinks import TableFormat
from tests.support.kafka_logs import PartitionWriter
from tests.support.tables import read_back

KILLS = 6
RUNS = """
import os, sys
from pathlib import Path
from ottla.spark_jobs import dedup
from ottla.spark_jobs.engines import embedded
from ottla.spark_jobs.sinks import TableFormat, files, require
log, out, table_format = sys.argv[1:]
require(TableFormat(table_format), Path(out))
while sys.stdin.readline():
    run = os.fork()
    if run == 0:
        dedup.dedup([log], Path(out), table_format=TableFormat(table_format))
        os._exit(0)
    print(run, flush=True)
    sys.stdin.readline()  # until the pid is not needed
    print(os.waitpid(run, 0)[1], flush=True)
"""
"""Forks a run for each line of its input, so that a run need not import anything, and prints the run's pid and how it ended."""


@contextmanager
def killer(*arguments: object) -> Iterator[Callable[[float], None]]:
    """Open a function that starts a run and kills it after some seconds, if it has not ended."""
    argv = [sys.executable, "-c", RUNS, *map(str, arguments)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as runs:
        assert runs.stdin is not None
        assert runs.stdout is not None
        ask, results = runs.stdin, runs.stdout

        def kill_after(seconds: float) -> None:
            ask.write("run\n")
            run = int(results.readline())
            threading.Event().wait(seconds)
            os.kill(run, signal.SIGKILL)
            ask.write("killed\n")
            assert int(results.readline()) in {0, signal.SIGKILL}

        yield kill_after
        ask.close()


def grow(logs: Sequence[PartitionWriter], turn: int) -> set[tuple[int, int]]:
    """Append a transaction, committed in every second turn, and another with a copy of its second half. Return (partition, offset) of the
    records that the table must have."""
    once = set()
    for partition, log in enumerate(logs):
        first = log.data(50, pid=partition, seq=100 * turn, transactional=True)
        log.data(50, pid=partition, seq=100 * turn + 50, transactional=True)
        log.marker(partition, committed=turn % 2 == 0)
        copy = log.data(50, pid=partition, seq=100 * turn + 50, transactional=True)
        log.marker(partition)
        once |= {(partition, offset) for offset in (range(first, first + 100) if turn % 2 == 0 else range(copy, copy + 50))}
    return once


@pytest.mark.parametrize("table_format", TableFormat)
def test_each_committed_record_is_in_the_table_once_after_killed_runs(table_format: TableFormat, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    logs = [PartitionWriter(tmp_path / "log", "t", partition) for partition in range(3)]
    out = tmp_path / "out"
    expected: set[tuple[int, int]] = set()

    def found() -> list[tuple[int, int]]:
        return sorted((row["partition"], row["offset"]) for row in read_back(table_format, out, "records"))

    with killer(tmp_path / "log", out, table_format) as kill_after:
        for turn in range(KILLS):
            expected |= grow(logs, turn)
            kill_after(chance.uniform(0, 1))
            assert len(found()) == len(set(found()))
            assert set(found()) <= expected
    for _ in range(2):
        dedup([tmp_path / "log"], out, table_format=table_format)
        assert found() == sorted(expected)
        assert len(read_back(table_format, out, "transactions")) == 3 * 2 * KILLS
        assert sum(row["records"] for row in read_back(table_format, out, "producers")) == 3 * 150 * KILLS

"""Measures the audit on Spark: `local[1]`, `local[2]`, and a standalone cluster of two workers with one core each, on the same logs.

Processes are sampled every SAMPLE_S seconds: peaks are the highest samples, and the CPU time of a process after its last sample is not
counted.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import psutil
from rich.table import Table

from client_compat.audit_cluster.cluster import cluster

SAMPLE_S: Final = 0.1
TIMEOUT_S: Final = 3600
WORKER: Final = "Python worker"
JVM: Final = "JVM"
DRIVER: Final = "driver"
DAEMONS: Final = "org.apache.spark.deploy."
"""The beginning of the main class names of a cluster's master and workers, whose processes are not sampled because they run before and
after the audit. A driver's JVM, which is sampled, has the main class SparkSubmit."""


@dataclass(slots=True)
class Sampled:
    """Samples of the processes of an audit on Spark. By kind of process (driver, JVM, Python worker), `largest` has the peak bytes of the
    largest one, and `together` the peak of all at once. `cpu`: CPU seconds by process."""

    largest: dict[str, int] = field(default_factory=dict)
    together: dict[str, int] = field(default_factory=dict)
    cpu: dict[tuple[int, float], float] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        """The CPU seconds of all sampled processes together."""
        return sum(self.cpu.values())

    def take(self, processes: Sequence[psutil.Process]) -> None:
        """Read the memory and CPU time of each process once, and update the peaks and the CPU times."""
        sums: dict[str, int] = {}
        for process in processes:
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                kind = kind_of(process.cmdline())
                if kind is None:
                    continue
                size, times = process.memory_info().rss, process.cpu_times()
                sums[kind] = sums.get(kind, 0) + size
                self.largest[kind] = max(size, self.largest.get(kind, 0))
                self.cpu[process.pid, process.create_time()] = times.user + times.system
        for kind, size in sums.items():
            self.together[kind] = max(size, self.together.get(kind, 0))


def kind_of(command: Sequence[str]) -> str | None:
    """Return the kind of a process of an audit, according to its command line: driver, JVM or Python worker. None for Spark's master and
    workers, and for a process without a command line because it is ending."""
    text = " ".join(command)
    if not command or (DAEMONS in text and "SparkSubmit" not in text):
        return None
    if "pyspark.worker" in text:
        return WORKER
    return DRIVER if "ottla" in command else JVM


@contextmanager
def sampling() -> Iterator[Sampled]:
    """Sample this process's descendants on a thread until the block ends; yield the samples."""
    sampled, ended, this = Sampled(), threading.Event(), psutil.Process()

    def repeat() -> None:
        while not ended.wait(SAMPLE_S):
            sampled.take(this.children(recursive=True))

    thread = threading.Thread(target=repeat, name="sampling")
    thread.start()
    try:
        yield sampled
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class Run:
    """The elapsed time of one audit, and the samples of its processes."""

    seconds: float
    sampled: Sampled


def audited(master: str, directory: Path) -> Run:
    """Audit the valid log in `directory` with Spark at the master URL `master`; return the elapsed time and the samples of the audit's
    processes. Raises subprocess.CalledProcessError if the audit's exit code is not 0, subprocess.TimeoutExpired after TIMEOUT_S seconds."""
    command = [sys.executable, "-m", "ottla", "audit", "--engine", "spark", "--no-deep", "--master", master, str(directory)]
    started = time.perf_counter()
    with sampling() as sampled:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
    return Run(time.perf_counter() - started, sampled)


def measured(directory: Path, size: int, reps: int, work: Path) -> Table:
    """Audit the log in `directory` on each Spark master, `reps` times, with the masters in turns. Return a table of median times and of the
    highest memory of all runs. `size` is the log's size in bytes; the Spark cluster writes its files to `work`."""
    with ExitStack() as stack:
        masters = {"local[1]": "local[1]", "local[2]": "local[2]", "2 workers of 1 core": stack.enter_context(cluster(work))}
        runs: dict[str, list[Run]] = {name: [] for name in masters}
        for _ in range(reps):
            for name, url in masters.items():
                runs[name].append(audited(url, directory))
    columns = ("master", "seconds", "GB/s", "CPU s", "a Python worker, MB", "all Python workers, MB", "largest JVM, MB", "driver, MB")
    shown = Table(*columns, title=f"Spark: {size / 1e9:.2f} GB, medians of {reps}, peaks of memory")
    for name, found in runs.items():
        seconds = median(run.seconds for run in found)
        cpu = median(run.sampled.cpu_seconds for run in found)
        workers = max(run.sampled.together.get(WORKER, 0) for run in found)
        largest = [max(run.sampled.largest.get(kind, 0) for run in found) for kind in (WORKER, JVM, DRIVER)]
        memory = [f"{each / 1e6:.0f}" for each in (largest[0], workers, *largest[1:])]
        shown.add_row(name, f"{seconds:.1f}", f"{size / seconds / 1e9:.2f}", f"{cpu:.1f}", *memory)
    return shown

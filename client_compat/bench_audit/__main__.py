"""The benchmark's command line: `python -m client_compat.bench_audit [--quick] [--gb 1 --gb 4] [--reps 3]`."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from client_compat.bench_audit import logs
from client_compat.bench_audit.formula import CORES, Planned, planned
from client_compat.bench_audit.masters import Sampled, sampling
from client_compat.bench_audit.masters import measured as measured_on_masters
from client_compat.bench_audit.reader import READS
from client_compat.kafka.jars import KafkaMissing
from client_compat.kafka.tools import Tools
from client_compat.support import program

TIMEOUT_S = 3600
SMALL_BYTES = 104 << 20
"""The size of the small log in bytes (109 MB). In its audit, most of the time is start-up."""
PR_SET_CHILD_SUBREAPER = 36
DEEP_BYTES_MAX = 3 << 29
"""The size, in bytes, of the largest log that is also read with kafka-dump-log's option --deep-iteration, which takes minutes per gigabyte.
"""


@dataclass(slots=True)
class Contender:
    """A program (the audit's reader or kafka-dump-log) that reads a log, to compare its speed. `baseline`: the contender that its rate is
    compared with."""

    name: str
    commands: list[list[str]]
    baseline: str = ""
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    peak_kib: int = 0
    rows: int = 0

    def run(self) -> None:
        """Read the log once, with all of `commands` at the same time. Appends the wall-clock and CPU seconds to the lists, and updates
        `peak_kib` and `rows`. Raises subprocess.CalledProcessError if a command fails, and SystemExit if the audit reports violations."""
        ours = self.commands[0][0] == sys.executable
        started, before = time.perf_counter(), _cpu_of_children()
        # No process waits for Spark's Python workers, so the kernel adds their CPU time to no parent process. Therefore it is sampled.
        with sampling() if self.name == "spark" else nullcontext(Sampled()) as sampled:
            running = [subprocess.Popen(c, stdout=subprocess.PIPE if ours else subprocess.DEVNULL, text=True) for c in self.commands]
            answers = [process.communicate(timeout=TIMEOUT_S)[0] for process in running]
        self.seconds.append(time.perf_counter() - started)
        _wait_for_orphans()
        self.cpu_seconds.append(max(_cpu_of_children() - before, sampled.cpu_seconds))
        for process, command in zip(running, self.commands, strict=True):
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, command)
        if ours:
            result = json.loads(answers[0])
            if result["violations"]:
                raise SystemExit(f"{self.name}: {result['violations']} violations in a valid log")
            self.peak_kib, self.rows = max(self.peak_kib, result["peak_kib"]), result["rows"]


def _adopt_orphans() -> None:
    """Become the parent of processes whose parent ends: Spark's JVM outlives the program that started it, and its processor time counts."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait_for_orphans() -> None:
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _cpu_of_children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def contenders(directory: Path, tools: Tools | None, whats: Sequence[str]) -> list[Contender]:
    """Return the programs to compare on the log in `directory`: the audit's reader, once for each name in `whats` (such as `headers`, see
    `reader`), and Kafka's kafka-dump-log unless `tools` is None."""
    found = [
        Contender(
            what,
            [[sys.executable, "-m", "client_compat.bench_audit.reader", what, str(directory)]],
            "dump-log deep" if what == "records" else "dump-log",
        )
        for what in whats
    ]
    if tools is not None:
        halves = [sorted(str(path) for path in each.glob("*.log")) for each in sorted(directory.iterdir())]
        size = sum(path.stat().st_size for path in directory.rglob("*.log"))
        for name, more in (("dump-log", []), ("dump-log deep", ["--deep-iteration"])):
            if more and size > DEEP_BYTES_MAX:
                continue
            found.append(Contender(name, [tools.command("kafka-dump-log", "--files", ",".join(half), *more) for half in halves]))
    return found


def measure(  # noqa: PLR0917 # called thrice, in one place
    console: Console, title: str, make: Callable[[Path], int], reps: int, tools: Tools | None, whats: Sequence[str]
) -> None:
    """Make a log with `make`, let all contenders read it `reps` times in turn, print the table, and delete the log."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-audit-"))
    try:
        records = make(directory / "logs")
        size = sum(path.stat().st_size for path in directory.rglob("*.log"))
        running = contenders(directory / "logs", tools, whats)
        for _ in range(reps):
            for each in running:
                each.run()
        console.print(table(title, running, size, records))
    finally:
        shutil.rmtree(directory)


def measure_masters(console: Console, sizes: Sequence[int], reps: int) -> None:
    """Measure the audit of a generated log of each size, in bytes, `reps` times on each kind of Spark master, and print a table."""
    for size in sizes:
        directory = Path(tempfile.mkdtemp(prefix="ottla-bench-audit-"))
        try:
            logs.big(directory / "logs", size)
            found = sum(path.stat().st_size for path in directory.rglob("*.log"))
            (directory / "spark").mkdir()
            console.print(measured_on_masters(directory / "logs", found, reps, directory / "spark"))
        finally:
            shutil.rmtree(directory)


def planning(found: Planned) -> Table:
    """Return a table of what `formula.planned` measured: the time and memory that Spark's driver needs to list the logs and plan the audit,
    before the first task starts."""
    columns = ("segments", "listings", "listing s", "planning s", "CPU s", "tasks", "MB sent to tasks", "peak MB")
    shown = Table(*columns, title=f"Planning for {CORES} cores")
    seconds = (f"{found.listing_seconds:.1f}", f"{found.planning_seconds:.1f}", f"{found.cpu_seconds:.1f}")
    sizes = (f"{found.tasks:,}", f"{found.task_bytes / 1e6:.1f}", f"{found.peak_bytes / 1e6:,.0f}")
    shown.add_row(f"{found.segments:,}", f"{found.listings:,}", *seconds, *sizes)
    return shown


def table(title: str, measured: Sequence[Contender], size: int, records: int) -> Table:
    """Return a table of rates, computed from median times, and of their ratios to each contender's `baseline`."""
    columns = ("contender", "seconds", "GB/s", "records/s", "against", "CPU s", "GB/CPU s", "against", "peak MB a process")
    shown = Table(*columns, title=f"{title}: {size / 1e9:.2f} GB")
    medians = {each.name: median(each.seconds) for each in measured}
    cpu = {each.name: median(each.cpu_seconds) for each in measured}
    for each in measured:
        seconds = medians[each.name]
        against = [f"{of[each.baseline] / of[each.name]:.1f} x {each.baseline}" if each.baseline in of else "" for of in (medians, cpu)]
        peak = f"{each.peak_kib / 1024:.0f}" if each.peak_kib else ""
        wall = (f"{seconds:.2f}", f"{size / seconds / 1e9:.2f}", f"{records / seconds:,.0f}", against[0])
        shown.add_row(each.name, *wall, f"{cpu[each.name]:.2f}", f"{size / cpu[each.name] / 1e9:.2f}", against[1], peak)
    return shown


def main(
    gb: Annotated[list[int] | None, typer.Option(help="Sizes of the large log in GiB; may be repeated.")] = None,
    reps: Annotated[int, typer.Option(min=1, help="Number of runs of each contender.")] = 3,
    quick: Annotated[bool, typer.Option(help="Audit one small log, once.")] = False,
    masters: Annotated[
        bool,
        typer.Option(help="Only the audit on Spark: local[1], local[2], and two workers of one core; 109 MB, 1.07 GB, and each --gb."),
    ] = False,
    segments: Annotated[int, typer.Option(help="Only plan an audit on Spark of so many segments of 1 GiB, 500 a partition.")] = 0,
) -> None:
    """Measure how fast the audit reads logs, beside kafka-dump-log on the same logs."""
    console = Console(width=140)
    if segments:
        console.print(planning(planned(max(1, segments // 500), min(500, segments))))
        return
    _adopt_orphans()
    reps = 1 if quick else reps
    if masters:
        measure_masters(console, [SMALL_BYTES] if quick else [SMALL_BYTES, 1 << 30, *(each << 30 for each in gb or [])], reps)
        return
    try:
        tools: Tools | None = Tools()
    except KafkaMissing as e:
        console.print(f"Without kafka-dump-log: {e}")
        tools = None
    whats = [*READS, "audit", "spark"]
    sizes = [1 << 27] if quick else [each << 30 for each in sorted(gb or [1, 4])]
    for size in sizes:
        measure(console, "16-KB batches", lambda root, size=size: logs.big(root, size), reps, tools, whats)  # type: ignore[misc]  # mypy does not infer a lambda's default
    partitions, producers = (200, 50_000) if quick else (2_000, 1_000_000)
    measure(console, f"{partitions:,} partitions", lambda root: logs.many_partitions(root, partitions), reps, None, whats)
    measure(console, f"{producers:,} producer ids", lambda root: logs.many_producers(root, producers), reps, None, whats)


if __name__ == "__main__":
    program.run(main)

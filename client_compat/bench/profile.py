"""`make profile`: profile Ottla under one of the benchmark's loads.

Rules:
- py-spy starts the broker and samples it from outside, so that the profiled code is unchanged.
- The tables exclude the start (imports) and idle worker threads.
- The load runs twice: once for the tables, once for the flame graph.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console
from rich.table import Table

from client_compat.bench.cases import CASES, warm_up
from client_compat.bench.loads import java
from client_compat.bench.loads.java import JavaLoad
from client_compat.bench.model import OURS, Ability, Benchmark, LoadFailed, Site
from client_compat.bench.peers.all import PEERS
from client_compat.support.brokers import STOP_TIMEOUT_S, BrokerFailed, BrokerProcess

RATE = 250
ROWS = 25
REPORT_WIDTH = 150
IMPORTING = "importlib._bootstrap"
WAITING = "_worker (concurrent/futures/thread.py)"
"""The innermost function of an idle worker thread, as py-spy names it. Samples of idle threads are not counted."""
DEFAULT_CASE = "one-record batches"


@dataclass(slots=True)
class Profile:
    """Sample counts by function. `own` counts the samples in which the function itself was running, `within` also those in which a function
    that it called was running."""

    samples: int = 0
    own: Counter[str] = field(default_factory=Counter)
    within: Counter[str] = field(default_factory=Counter)

    def add(self, line: str) -> None:
        """Add one line of py-spy's raw format: frames from the outermost on, separated by semicolons, then the count."""
        stack, _, count = line.rpartition(" ")
        frames = [_function(frame) for frame in stack.split(";")]
        if not stack or IMPORTING in stack or frames[-1] == WAITING:
            return
        self.samples += int(count)
        self.own[frames[-1]] += int(count)
        for frame in set(frames):
            self.within[frame] += int(count)


def _function(frame: str) -> str:
    """Return the frame without its line number, so that a function has one row."""
    return frame.rpartition(":")[0] + ")" if ":" in frame else frame


def read(path: Path) -> Profile:
    profile = Profile()
    for line in path.read_text().splitlines():
        profile.add(line)
    return profile


def table(profile: Profile, counts: Counter[str], title: str) -> Table:
    found = Table(title=f"{title} ({profile.samples} samples)", title_justify="left")
    found.add_column("share", justify="right")
    found.add_column("function")
    for name, count in counts.most_common(ROWS):
        found.add_row(f"{100 * count / max(1, profile.samples):.1f} %", name)
    return found


@contextmanager
def recorded(directory: Path, form: str, output: Path) -> Iterator[BrokerProcess]:
    """Run Ottla under py-spy, which samples it into the file `output` in the format `form`; yield the broker. On exit the broker is
    stopped, because py-spy writes its output when the process ends."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or "py-spy"
    plain = PEERS[OURS].make(directory)
    argv = [program, "record", "--rate", str(RATE), "--format", form, "--output", str(output), "--", *plain.argv]
    broker = BrokerProcess(argv, plain.port, directory / "py-spy.log", name="ottla under py-spy")
    broker.start()
    (watched,) = psutil.Process(broker.pid).children()
    try:
        yield broker
    finally:
        watched.terminate()
        _until_written(broker)


def _until_written(broker: BrokerProcess) -> None:
    """Wait until py-spy has written its output. Raises `BrokerFailed` if that takes too long."""
    try:
        psutil.Process(broker.pid).wait(STOP_TIMEOUT_S)
    except psutil.TimeoutExpired:
        broker.kill()
        raise BrokerFailed(f"py-spy wrote nothing within {STOP_TIMEOUT_S:.0f} s:\n{broker.output_tail()}") from None


def record(case: Benchmark, seconds: float, directory: Path, client: JavaLoad | None, note: Callable[[str], None]) -> tuple[Path, Path]:
    """Repeat the case for `seconds` under py-spy, once for the raw samples and once for the flame graph, because py-spy writes one format
    at a time; return the paths of both files."""
    made = []
    for form, suffix in (("raw", "raw"), ("flamegraph", "svg")):
        data, output = directory / form, directory / f"profile.{suffix}"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        note(f"{form}: {case.name}, for {seconds:.0f} s")
        with recorded(data, form, output) as broker:
            site = Site(PEERS[OURS], broker, client, _no_fresh_broker)
            warm_up(site)
            began, run = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                run += 1
                case.measure(Site(site.peer, broker, client, site.fresh, run))
        shutil.rmtree(data, ignore_errors=True)
        made.append(output)
    return made[0], made[1]


def _no_fresh_broker(_: str) -> AbstractContextManager[BrokerProcess]:
    raise LoadFailed("this case starts brokers of its own, which is not what is profiled")


def main(
    *,
    only: Annotated[str, typer.Option(help="The case: the first with this in its name.")] = DEFAULT_CASE,
    seconds: Annotated[float, typer.Option(min=1, help="How long the load runs, for each of the two recordings.")] = 10,
    directory: Annotated[Path, typer.Option("--dir", help="Where the profile goes.")] = Path(".bench/profile"),
) -> None:
    """Profile Ottla under one load of the benchmark: the functions that take the time, and a flame graph."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=REPORT_WIDTH)
    case = next((case for case in CASES if only in case.name), None)
    if case is None:
        console.print(f"[red]No case has that in its name.[/] There are: {'; '.join(case.name for case in CASES)}.")
        raise typer.Exit(2)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        if Ability.JAVA in case.needs and java.why_not() is None:
            with JavaLoad(directory / "java-client.log") as client:
                raw, graph = record(case, seconds, directory, client, console.print)
        else:
            raw, graph = record(case, seconds, directory, None, console.print)
    except (LoadFailed, BrokerFailed, OSError) as failure:
        console.print(f"[red]{failure}[/]")
        raise typer.Exit(1) from None
    profile = read(raw)
    tables = table(profile, profile.own, "In the function itself"), table(profile, profile.within, "In it and what it calls")
    console.print(*tables)
    console.print(f"Written: {graph} (a flame graph, for a browser), {raw} (the samples).")


if __name__ == "__main__":
    typer.run(main)

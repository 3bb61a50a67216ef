"""`python -m client_compat.audit_cluster`: the audit through spark-submit with the packaged wheel, on a master and two workers; of
directories, and of a broker that serves one of them.

Exit code 0: both workers ran tasks that read, and the findings are those of one process, each time.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from client_compat.audit_cluster.cluster import HOME, cluster, environment
from client_compat.audit_cluster.event_log import scan_tasks
from client_compat.bench_audit import logs
from client_compat.support import program
from client_compat.support.brokers import ottla
from client_compat.support.campaign import Expectations, conduct
from client_compat.support.wheel import ROOT, build_wheel, copy_sources
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import CASES

PLANTED = ("same_batch_twice", "gap", "planted")
TIMEOUT_S = 900


def write_logs(root: Path, megabytes: int) -> list[Path]:
    """A log to be served, one to be read, each large enough for many tasks, and planted ones; in the first, one of them lies, too."""
    for name in ("served", "big"):
        logs.big(root / name, megabytes << 20, partitions=8)
    CASES[PLANTED[0]].write(root / "served")
    for name in PLANTED:
        CASES[name].write(root / name)
    return [root / "served", root / "big", *(root / name for name in PLANTED)]


@dataclass(frozen=True, slots=True)
class Submitted:
    """What came of one spark-submit: the verdict, and how many tasks that read each worker's executor ran."""

    verdict: dict[str, Any]
    tasks: dict[str, int]

    @property
    def by_both(self) -> bool:
        """Whether each worker read."""
        return set(self.tasks) == {"work-0", "work-1"} and all(self.tasks.values())


def submit(master: str, wheel: Path, paths: Sequence[str], work: Path, name: str) -> Submitted:
    """Audit by spark-submit. Raises CalledProcessError with what Spark said where there is no verdict."""
    events, verdict = work / f"{name}-events", work / f"{name}.json"
    events.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.executor.memory": "600m",
        "spark.driver.memory": "800m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.cores.max": "2",
    }
    command = [str(HOME / "bin" / "spark-submit"), "--master", master, "--py-files", str(wheel)]
    for setting, value in settings.items():
        command += ["--conf", f"{setting}={value}"]
    command += [str(ROOT / "ottla" / "spark_jobs" / "audit.py"), "--engine", "spark", "--json", str(verdict), *paths]
    done = subprocess.run(command, cwd=work, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if not verdict.exists():
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout[-3000:], done.stderr[-3000:])
    print(done.stdout)
    (log,) = events.iterdir()
    workers = {place.name: place.parts[-3] for place in work.glob(f"work-*/{log.name}/*") if (place / wheel.name).exists()}
    tasks = {workers.get(executor, executor): count for executor, count in scan_tasks(log.read_text().splitlines()).items()}
    return Submitted(json.loads(verdict.read_text()), tasks)


def main(megabytes: Annotated[int, typer.Option(help="Size of the clean log.")] = 256) -> None:
    """Audit on a standalone Spark cluster, and show who did what."""
    conduct(partial(_audit_on_cluster, megabytes))


def _audit_on_cluster(megabytes: int, console: Console, work: Path) -> Expectations:
    table = Table("Read", "Worker", "Tasks that read", "Findings as in one process", title="Who read", title_justify="left")
    surprises: list[str] = []
    with ExitStack() as stack:
        paths = write_logs(work / "logs", megabytes)
        wheel = build_wheel(copy_sources(work / "sources"), work / "wheel")
        served = stack.enter_context(ottla(paths[0], options=["--set=log.retention.ms=-1"]))  # what is planted is old
        master = stack.enter_context(cluster(work))
        sources = {"files": list(map(str, paths[1:])), "wire": [f"kafka://{served.bootstrap}"]}
        for name, given in sources.items():
            alone = json.loads(audit(given, engine="duckdb", deep=False).to_json())
            done = submit(master, wheel, given, work, name)
            same = done.verdict["directories"] == alone["directories"] and alone["exit_code"] == 1
            for worker, count in sorted(done.tasks.items()):
                table.add_row(name, worker, str(count), "yes" if same else "NO")
            if not (same and done.by_both):
                surprises.append(name)
    console.print(table)
    return Expectations(len(sources), surprises)


if __name__ == "__main__":
    program.run(main)

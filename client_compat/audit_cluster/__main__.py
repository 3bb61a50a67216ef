"""`python -m client_compat.audit_cluster`: runs `ottla audit` through spark-submit with the packaged wheel, on a master and two workers.

Three audits run, one after the other:
- of log directories;
- of the topics of a running broker, read over the network;
- of log directories, while an executor is killed.

Exit code 0: in each audit, both workers ran tasks that read logs, and the findings are the same as those of an audit in one process. In the
third audit, the killed executor was running tasks.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from client_compat.audit_cluster.cluster import HOME, cluster, environment, free_port
from client_compat.audit_cluster.event_log import LOST, scan_tasks
from client_compat.audit_cluster.kill import kill_an_executor
from client_compat.bench_audit import logs
from client_compat.support import program
from client_compat.support.brokers import ottla
from client_compat.support.campaign import Expectations, run_campaign
from client_compat.support.wheel import ROOT, build_wheel, copy_sources
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import CASES

PLANTED = ("same_batch_twice", "gap", "planted")
PARTITIONS = 2000
"""The number of partitions of the log for the audit in which an executor is killed. These give more tasks than two executors can run at
once, so some tasks are still waiting when the executor is killed."""
KILLED = "executor killed"
TIMEOUT_S = 900


def write_logs(root: Path, megabytes: int) -> dict[str, list[Path]]:
    """Write logs for several audits below `root`; return the log directories of each audit, by the audit's name. Each audit has data for
    many tasks, and at least one planted fault."""
    for name in ("served", "big"):
        logs.big(root / name, megabytes << 20, partitions=8)
    CASES[PLANTED[0]].write(root / "served")
    for name in PLANTED:
        CASES[name].write(root / name)
    logs.many_partitions(root / "many", PARTITIONS)
    planted = [root / name for name in PLANTED]
    return {"files": [root / "big", *planted], "wire": [root / "served"], KILLED: [root / "many", *planted]}


@dataclass(frozen=True, slots=True)
class Submitted:
    """The result of one audit that spark-submit ran. `verdict`: the audit's JSON. `tasks`: for each worker, how many tasks that read logs
    succeeded. `lost`: how many such tasks Spark lost because their executor ended."""

    verdict: dict[str, Any]
    tasks: Counter[str]
    lost: int

    @property
    def by_both(self) -> bool:
        """Whether both workers ran tasks that read logs."""
        return set(self.tasks) == {"work-0", "work-1"} and all(self.tasks.values())


Disturbance = Callable[[str, subprocess.Popen[str]], None]
"""A callback that disturbs a running audit, for instance by killing an executor. Its arguments are the URL of the application's UI, and the
spark-submit process."""


def submit(  # noqa: PLR0917 # one program's arguments
    master: str, wheel: Path, paths: Sequence[str], work: Path, name: str, disturb: Disturbance | None = None
) -> Submitted:
    """Audit the logs at `paths` with spark-submit, and return the result. Files are written to `work`, with `name` in their names.
    `disturb` is called while the audit runs. Raises CalledProcessError with Spark's output if there is no verdict."""
    ui = free_port()
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
        "spark.ui.enabled": str(disturb is not None).lower(),
        "spark.ui.port": str(ui),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.cores.max": "2",
    }
    command = [str(HOME / "bin" / "spark-submit"), "--master", master, "--py-files", str(wheel)]
    for setting, value in settings.items():
        command += ["--conf", f"{setting}={value}"]
    command += [str(ROOT / "ottla" / "spark_jobs" / "audit.py"), "--engine", "spark", "--json", str(verdict), *paths]
    with subprocess.Popen(command, cwd=work, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            if disturb is not None:
                disturb(f"http://127.0.0.1:{ui}", running)
            out, err = running.communicate(timeout=TIMEOUT_S)
        except BaseException:
            running.kill()
            raise
    if not verdict.exists():
        raise subprocess.CalledProcessError(running.returncode, command, out[-3000:], err[-3000:])
    print(out)
    (log,) = events.iterdir()
    workers = {place.name: place.parts[-3] for place in work.glob(f"work-*/{log.name}/*") if (place / wheel.name).exists()}
    lines = log.read_text().splitlines()
    tasks: Counter[str] = Counter()
    for executor, count in scan_tasks(lines).items():
        tasks[workers.get(executor, executor)] += count  # a worker starts another executor for one that was killed
    return Submitted(json.loads(verdict.read_text()), tasks, scan_tasks(lines, LOST).total())


def main(megabytes: Annotated[int, typer.Option(help="Size of the clean log.")] = 256) -> None:
    """Audit generated logs with `ottla audit` on a standalone Spark cluster, and print how many tasks each worker ran."""
    run_campaign(partial(_audit_on_cluster, megabytes))


def _audit_on_cluster(megabytes: int, console: Console, work: Path) -> Expectations:
    table = Table("Read", "Worker", "Tasks that read", "Tasks lost", "Findings as in one process", title="Who read", title_justify="left")
    surprises: list[str] = []
    with ExitStack() as stack:
        paths = write_logs(work / "logs", megabytes)
        wheel = build_wheel(copy_sources(work / "sources"), work / "wheel")
        served = stack.enter_context(ottla(paths["wire"][0], options=["--set=log.retention.ms=-1"]))  # planted batches have old timestamps
        master = stack.enter_context(cluster(work))
        sources = {name: [str(path) for path in given] for name, given in paths.items()} | {"wire": [f"kafka://{served.bootstrap}"]}
        for name, given in sources.items():
            alone = json.loads(audit(given, engine="duckdb", deep=False).to_json())
            done = submit(master, wheel, given, work, name.replace(" ", "-"), kill_an_executor if name == KILLED else None)
            same = done.verdict["directories"] == alone["directories"] and alone["exit_code"] == 1
            for worker, count in sorted(done.tasks.items()):
                table.add_row(name, worker, str(count), str(done.lost), "yes" if same else "NO")
            if not (same and done.by_both and (done.lost > 0) == (name == KILLED)):
                surprises.append(name)
    console.print(table)
    return Expectations(len(sources), surprises)


if __name__ == "__main__":
    program.run(main)

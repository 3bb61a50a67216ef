"""`python -m client_compat.audit_cluster`: the audit through spark-submit with the packaged wheel, on a master and two workers.

Exit code 0: both workers ran tasks of the scan, and the findings are those of one process.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from client_compat.audit_cluster.cluster import HOME, cluster, environment
from client_compat.audit_cluster.event_log import scan_tasks
from client_compat.bench_audit import logs
from spark_jobs.audit import audit
from spark_jobs.corpus import CASES

ROOT = Path(__file__).resolve().parents[2]
PLANTED = ("same_batch_twice", "gap", "planted")
TIMEOUT_S = 900


def build_wheel(to: Path) -> Path:
    """Ottla's wheel, built from a copy of the sources without the network."""
    sources = to / "sources"
    for package in ("protocol", "broker", "client_compat", "spark_jobs"):
        shutil.copytree(ROOT / package, sources / package, ignore=shutil.ignore_patterns("__pycache__", "node_modules", "*.so", "target"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, sources / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(to), "."]
    subprocess.run(command, cwd=sources, check=True)
    (wheel,) = to.glob("ottla-*.whl")
    return wheel


def write_logs(root: Path, megabytes: int) -> list[Path]:
    """A clean log large enough for many tasks, and planted ones."""
    logs.big(root / "big", megabytes << 20, partitions=8)
    for name in PLANTED:
        CASES[name].write(root / name)
    return [root / "big", *(root / name for name in PLANTED)]


def submit(master: str, wheel: Path, paths: list[Path], work: Path) -> dict[str, Any]:
    """The verdict of spark-submit. Raises CalledProcessError with what Spark said where there is none."""
    events = work / "events"
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
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    verdict = work / "verdict.json"
    command += [str(ROOT / "spark_jobs" / "audit.py"), "--engine", "spark", "--json", str(verdict), *map(str, paths)]
    done = subprocess.run(command, cwd=work, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if not verdict.exists():
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout[-3000:], done.stderr[-3000:])
    print(done.stdout)
    found: dict[str, Any] = json.loads(verdict.read_text())
    return found


def main(megabytes: Annotated[int, typer.Option(help="Size of the clean log.")] = 256) -> None:
    """Audit on a standalone Spark cluster, and show who did what."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="ottla-cluster-") as directory:
        work = Path(directory)
        paths = write_logs(work / "logs", megabytes)
        wheel = build_wheel(work / "wheel")
        local = json.loads(audit(paths, engine="duckdb", deep=False).to_json())
        with cluster(work) as master:
            verdict = submit(master, wheel, paths, work)
        (events,) = (work / "events").iterdir()
        tasks = scan_tasks(events.read_text().splitlines())
        workers = {place.name: place.parts[-3] for place in work.glob("work-*/app-*/*") if (place / wheel.name).exists()}
    table = Table("Worker", "Executor", "Tasks of the kafka_log scan", title="Who read the logs", title_justify="left")
    for executor, count in sorted(tasks.items()):
        table.add_row(workers.get(executor, "?"), executor, str(count))
    console.print(table)
    same = verdict["directories"] == local["directories"]
    both = all(tasks.values()) and {workers.get(executor) for executor in tasks} == {"work-0", "work-1"}
    console.print(f"Findings as in one process: {'yes' if same else 'NO'}; both workers read: {'yes' if both else 'NO'}")
    raise typer.Exit(0 if same and both else 1)


if __name__ == "__main__":
    typer.run(main)

"""Command line of `make spark-releases`. Each Spark release gets a virtual environment of its own beside `.venv`, which is created once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from client_compat.audit_corpus.cut import cut_corpus
from client_compat.support import program
from client_compat.support.wheel import ROOT
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.score import write

OLDEST: Final = "3.5.9"
"""The oldest supported Spark release. The newest is the one in constraints.txt, which this environment has."""
OF_SPARK: Final = ("pyspark==", "py4j==")
"""The packages in constraints.txt whose versions depend on the Spark release."""


def environment(release: str) -> Path:
    """Return the interpreter of the virtual environment with this release of PySpark. The environment is created if it does not exist or
    its pinned packages have changed."""
    home = ROOT / f".venv-spark{release.replace('.', '')[:2]}"
    interpreter, stamp = home / "bin" / "python", home / ".installed"
    pins = "".join(line for line in (ROOT / "constraints.txt").read_text().splitlines(keepends=True) if not line.startswith(OF_SPARK))
    wanted = f"{release}\n{pins}"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Making {home.name} with PySpark {release} (once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        constraints = home / "constraints.txt"
        constraints.write_text(pins)
        pip = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-c", str(constraints)]
        subprocess.run([*pip, "setuptools", "wheel", "cython"], check=True)
        subprocess.run([*pip, "--no-build-isolation", "-e", ".[audit]", f"pyspark=={release}"], cwd=ROOT, check=True)
        stamp.write_text(wanted)
    return interpreter


def verdicts(python: Path, engine: str, directory: Path) -> bytes:
    """Audit the logs below `directory` in a process with this interpreter and engine (duckdb or spark), and return the verdicts as JSON.
    Raises subprocess.CalledProcessError if the process fails."""
    file = directory / "verdicts.json"
    places = (directory / "logs", directory / "cut", file)
    command = [str(python), "-m", "client_compat.spark_releases.judge", engine, *map(str, places)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    return file.read_bytes()


def main(
    logs: Annotated[
        list[Path] | None, typer.Argument(help="More data directories, for example those that `make audit-corpus` kept.")
    ] = None,
) -> None:
    """Audit the audit's own test logs, the recorded log of a real broker, and further logs with DuckDB and with each Spark release; then
    the test logs again with a segment per batch, which Spark reads in slices. Exit code 0: all verdicts are equal."""
    here = Path(sys.executable)
    runs = {"DuckDB": (here, "duckdb"), f"Spark {version('pyspark')}": (here, "spark"), f"Spark {OLDEST}": (environment(OLDEST), "spark")}
    table = Table("engine", "logs", "findings", "verdicts")
    with tempfile.TemporaryDirectory(prefix="ottla-spark-releases-") as directory:
        root = Path(directory) / "logs"
        write(CASES, root)
        for number, log in enumerate([ROOT / "tests" / "golden" / "kafka_log", *(logs or ())]):
            shutil.copytree(log, root / f"log-{number}")
        cut_corpus(Path(directory) / "cut")
        expected = b""
        equal = True
        for name, (python, engine) in runs.items():
            found = verdicts(python, engine, Path(directory))
            expected = expected or found
            equal = equal and found == expected
            judged = json.loads(found)
            findings = sum(len(rule["samples"]) for each in judged for rule in each["rules"].values())
            table.add_row(name, f"{len(judged):,}", f"{findings:,}", "equal" if found == expected else "DIFFERENT")
    Console().print(table)
    raise typer.Exit(0 if equal else 1)


if __name__ == "__main__":
    program.run(main)

"""A standalone Spark cluster on this machine: a master and workers as processes on loopback, which are ended by their process ids."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from json import load
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
START_SECONDS = 300


@contextmanager
def cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """Run a Spark cluster inside the context; yield the master's URL when all workers have registered. Processes log to `directory`. Raises
    TimeoutError if the workers do not register in time."""
    port, ui = free_port(), free_port()
    with ExitStack() as stack:
        stack.enter_context(_process(directory, "master", "master.Master", "--port", str(port), "--webui-port", str(ui)))
        url = f"spark://127.0.0.1:{port}"
        for number in range(workers):
            arguments = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(directory / f"work-{number}"), url)
            stack.enter_context(_process(directory, f"worker-{number}", "worker.Worker", *arguments))
        _wait_for_workers(f"http://127.0.0.1:{ui}/json/", workers)
        yield url


def environment() -> dict[str, str]:
    """Return the environment variables for Spark's programs: they use this interpreter, and listen on loopback only."""
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**os.environ, **python, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}


@contextmanager
def _process(directory: Path, name: str, main: str, *arguments: str) -> Iterator[None]:
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", "--host", "127.0.0.1", *arguments]
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment(), cwd=directory)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_workers(url: str, wanted: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if load(answer)["aliveworkers"] == wanted:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        time.sleep(0.2)
    raise TimeoutError(f"the workers did not join the Spark master in {START_SECONDS} s")


def free_port() -> int:
    """Return a port on loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

"""Kills the JVM of a Spark executor that runs tasks of an audit. The REST interface of the Spark application shows which executors have
running tasks."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.error
import urllib.request
from itertools import pairwise
from json import load
from typing import Any, Final

import psutil

WAIT_S: Final = 300


def kill_an_executor(ui: str, running: subprocess.Popen[str]) -> None:
    """Wait until an executor has finished one task of the first stage (which reads the logs) and runs another, then SIGKILL its JVM. `ui`
    is the URL of the Spark application's UI, `running` its spark-submit process. Raises RuntimeError if this process ends first, and
    TimeoutError if no executor gets that far in time."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if running.poll() is not None:
            raise RuntimeError("the audit ended before an executor could be killed in the middle of it: use a larger log")
        for application in _get(f"{ui}/api/v1/applications"):
            of_application = f"{ui}/api/v1/applications/{application['id']}"
            reads = [stage["stageId"] for stage in _get(f"{of_application}/stages?status=active")] == [0]
            for executor in _get(f"{of_application}/executors") if reads else []:
                if executor["id"] != "driver" and executor["activeTasks"] and executor["completedTasks"]:
                    _jvm(application["id"], executor["id"]).send_signal(signal.SIGKILL)
                    return
        time.sleep(0.02)
    raise TimeoutError(f"no executor judged within {WAIT_S} s")


def _get(url: str) -> list[dict[str, Any]]:
    """Return the decoded JSON at this URL of the Spark application's UI. Returns an empty list while the UI does not answer yet."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            found: list[dict[str, Any]] = load(answer)
            return found
    except (urllib.error.URLError, ConnectionError, TimeoutError, ValueError):  # the answer is a page of text while the UI starts
        return []


def _jvm(application: str, executor: str) -> psutil.Process:
    """Return the JVM process of an executor, which has both ids in its command line. Raises RuntimeError if there is none."""
    wanted = {("--app-id", application), ("--executor-id", executor)}
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if wanted <= set(pairwise(command)):
            return process
    raise RuntimeError(f"there is no process of executor {executor} of {application}")

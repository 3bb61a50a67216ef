"""Reads from Spark's event log which executor, on which worker, ran the tasks that read logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from ottla.spark_jobs.engines.distributed import NAME

LOST = {"ExecutorLostFailure", "Resubmitted"}
"""Spark's reasons for a task that ended with its executor: it was running, or it had finished and its result was lost."""


def scan_tasks(lines: Iterable[str], reasons: Collection[str] = ("Success",)) -> Counter[str]:
    """Return, by executor id, the number of tasks that belong to a stage that reads log partitions and ended with one of `reasons`.
    Executors without such a task count 0."""
    tasks: Counter[str] = Counter()
    scans: set[int] = set()
    ended: list[tuple[int, str]] = []
    for line in lines:
        event = json.loads(line)
        kind = event["Event"]
        if kind == "SparkListenerExecutorAdded":
            tasks[event["Executor ID"]] += 0
        elif kind == "SparkListenerStageSubmitted" and _scans(event["Stage Info"]):
            scans.add(event["Stage Info"]["Stage ID"])
        elif kind == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] in reasons:
            ended.append((event["Stage ID"], event["Task Info"]["Executor ID"]))
    tasks.update(executor for stage, executor in ended if stage in scans)
    return tasks


def _scans(stage: dict[str, Any]) -> bool:
    return any(rdd.get("Name") == NAME for rdd in stage["RDD Info"]) and not stage["Parent IDs"]

"""Counts, from Spark's event log, the tasks that read logs and that each executor ran."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from ottla.spark_jobs.engines.distributed import NAME

LOST = {"ExecutorLostFailure", "Resubmitted"}
"""Spark's reasons for the end of a task whose executor was lost: ExecutorLostFailure if the task was still running, Resubmitted if it had
finished but its result was lost."""


def scan_tasks(lines: Iterable[str], reasons: Collection[str] = ("Success",)) -> Counter[str]:
    """Count the tasks in the lines of a Spark event log, by executor id. Only tasks of stages that read log partitions count, and only if
    Spark gives one of `reasons` for their end. An executor without such a task has count 0."""
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

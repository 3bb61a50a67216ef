"""Who scanned kafka_log, from lines of Spark's event log."""

from __future__ import annotations

import json

from client_compat.audit_cluster.event_log import scan_tasks


def added(executor: str) -> str:
    return json.dumps({"Event": "SparkListenerExecutorAdded", "Executor ID": executor})


def submitted(stage: int, scope: str) -> str:
    rdd = {"Scope": json.dumps({"id": "1", "name": scope})}
    return json.dumps({"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": stage, "RDD Info": [rdd, {}]}})


def ended(stage: int, executor: str, reason: str = "Success") -> str:
    task = {"Stage ID": stage, "Task End Reason": {"Reason": reason}, "Task Info": {"Executor ID": executor}}
    return json.dumps({"Event": "SparkListenerTaskEnd", **task})


def test_only_successful_tasks_of_the_scan_count() -> None:
    lines = [
        added("0"), added("1"), submitted(1, "BatchScan kafka_log"), submitted(2, "Exchange"),
        ended(1, "0"), ended(1, "0"), ended(1, "0", "ExceptionFailure"), ended(2, "1"),
    ]  # fmt: skip
    assert scan_tasks(lines) == {"0": 2, "1": 0}

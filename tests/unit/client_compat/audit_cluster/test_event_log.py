from __future__ import annotations

import json

from client_compat.audit_cluster.event_log import LOST, scan_tasks


def added(executor: str) -> str:
    return json.dumps({"Event": "SparkListenerExecutorAdded", "Executor ID": executor})


def submitted(stage: int, name: str, parents: list[int]) -> str:
    info = {"Stage ID": stage, "RDD Info": [{"Name": "PythonRDD"}, {"Name": name}], "Parent IDs": parents}
    return json.dumps({"Event": "SparkListenerStageSubmitted", "Stage Info": info})


def ended(stage: int, executor: str, reason: str = "Success") -> str:
    task = {"Stage ID": stage, "Task End Reason": {"Reason": reason}, "Task Info": {"Executor ID": executor}}
    return json.dumps({"Event": "SparkListenerTaskEnd", **task})


def test_only_successful_tasks_of_the_first_step_count() -> None:
    lines = [
        added("0"), added("1"), submitted(1, "log partitions", []), submitted(2, "log partitions", [1]),
        ended(1, "0"), ended(1, "0"), ended(1, "0", "ExceptionFailure"), ended(2, "1"),
    ]  # fmt: skip
    assert scan_tasks(lines) == {"0": 2, "1": 0}


def test_tasks_that_ended_with_their_executor_are_lost() -> None:
    lines = [
        added("0"), added("1"), submitted(1, "log partitions", []), submitted(2, "log partitions", [1]),
        ended(1, "0"), ended(1, "0", "Resubmitted"), ended(1, "0", "ExecutorLostFailure"), ended(2, "0", "ExecutorLostFailure"),
    ]  # fmt: skip
    assert scan_tasks(lines, LOST) == {"0": 2, "1": 0}

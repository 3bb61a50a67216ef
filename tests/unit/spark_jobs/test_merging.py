"""Merged partial answers have the same first findings and counts as one complete answer."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

from ottla.spark_jobs.merging import Merged

ROW = {"log_dir": "a", "rule": "offsets", "severity": "warning", "kind": "gap", "topic": "t", "file": "f", "offset": None, "evidence": "{}"}


def answer(partition: int, findings: int, samples: int = 10) -> dict[str, Any]:
    rows = [{**ROW, "partition": partition, "position": at, "total": findings, "place": at + 1} for at in range(min(findings, samples))]
    return {"findings": rows, "counts": [{"log_dir": "a", "batches": findings, "records": 2}], "keys": [{"records": 1, "keyed": 1}]}


def test_first_findings_and_all_counts_are_merged_in_any_order() -> None:
    answers = [answer(partition, findings=partition % 3 * 20) for partition in range(300)]
    random.Random(1).shuffle(answers)
    halves = Merged(10), Merged(10)
    for i, each in enumerate(answers):
        halves[i % 2].add(each)
    merged = Merged(10)
    for half in halves:
        merged.add(half.answer())
    found = merged.answer()
    assert [(row["partition"], row["position"], row["place"]) for row in found["findings"]] == [(1, at, at + 1) for at in range(10)]
    assert {row["total"] for row in found["findings"]} == {100 * 20 + 100 * 40}
    assert found["counts"] == [{"log_dir": "a", "batches": 6000, "records": 600}]
    assert len(found["keys"]) == 300


def test_merging_findings_of_thousands_of_tasks_takes_little_memory() -> None:
    merged = Merged(10)
    tracemalloc.start()
    try:
        for partition in range(2000):
            merged.add({"findings": answer(partition, findings=100_000)["findings"]})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert {row["total"] for row in merged.answer()["findings"]} == {2000 * 100_000}


def test_number_of_findings_is_merged_without_samples() -> None:
    merged = Merged(0)
    merged.add(answer(0, findings=7, samples=1))
    assert [row["total"] for row in merged.answer()["findings"]] == [7]

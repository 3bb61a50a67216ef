"""Both steps of the audit on one engine, and queries of its views for the report's pictures afterwards."""

from __future__ import annotations

from pathlib import Path

from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.engines.in_process import embedded_judge
from ottla.spark_jobs.judging import rows_by_kind
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.steps import AuditSpec

ARGS = {"expiration_ms": 86_400_000, "transaction_timeout_ms": 900_000, "replay_ms": 1}


def test_embedded_judge_answers_both_steps_and_keeps_its_views_for_drawing(tmp_path: Path) -> None:
    CASES["gap"].write(tmp_path)
    logs, reported = [find_logs(tmp_path)], []
    spec = AuditSpec((), None, False, False, 10, ARGS, draws=True)
    with embedded_judge(0, 128, lambda step, done, total: reported.append((step, done, total))) as judge:
        answer = rows_by_kind(judge.judge(spec, logs))
        drawn = rows_by_kind(judge.draw(spec, logs, [(str(tmp_path), "t", 0)], []))
    assert reported == [("judging", 1, 3), ("judging across partitions", 2, 3)]
    assert [row["kind"] for row in answer["findings"]] == ["sequence gap"]
    assert [(row["topic"], row["partition"]) for row in answer["extents"]] == [("t", 0)]
    assert sum(row["batches"] for row in drawn["spans"]) == answer["counts"][0]["batches"]

"""A large log is planned with few tasks and little memory; a small log of the same kind is judged."""

from __future__ import annotations

import pytest

from client_compat.bench_audit import formula
from ottla.spark_jobs import audit_tasks
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.audit_tasks import plan
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.steps import AuditSpec


def test_formula_log_has_no_violations() -> None:
    formula.register()
    (verdict,) = audit("formula://3x4", engine="duckdb").directories
    assert (verdict.partitions, verdict.segments, verdict.batches, verdict.records) == (3, 12, 12, 120)
    assert (verdict.violations, verdict.warnings, verdict.problems) == (0, 0, [])


def test_number_of_tasks_and_their_size_stay_small_for_many_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_tasks, "TASKS_MAX", 200)
    found = formula.planned(20, 500)
    assert (found.segments, found.listings) == (10_000, 21)
    assert 150 < found.tasks < 250
    assert found.task_bytes < 30 * found.segments


def test_each_segment_is_read_by_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_tasks, "TASKS_MAX", 50)
    formula.register()
    logs = find_logs(f"formula://20x50x{1 << 30}")
    plans = plan([logs], AuditSpec((), None, False, False, 10, {}), 100)
    tasks = plans.tasks + [each.read for each in plans.slices]
    read = [segment.path for task in tasks for found in task for segment in found.segments]
    assert sorted(read) == sorted(segment.path for segment in logs.segments)
    assert len(set(read)) == len(read) == 1000

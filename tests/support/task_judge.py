"""Runs the tasks of a Spark audit in this process, without Spark: first those of the first step, then those of the second."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path

from ottla.spark_jobs.audit_tasks import (
    Row,
    Work,
    draw_tasks,
    judge_shuffled,
    judge_slices,
    judge_tasks,
    make_tasks,
    plan,
    plan_rest,
    read_slices,
    reporting_failures,
    serialized,
)
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.reports.pictures import Extent, FindingPlace, limit_drawn_logs
from ottla.spark_jobs.steps import Answer, AuditSpec
from ottla.spark_jobs.stored_results import StoredResults


class TaskJudge:
    """A judge (`ottla.spark_jobs.judging.Judge`) that runs a Spark audit's tasks in this process; the second step has
    `shuffle_partitions` tasks."""

    name = "tasks"

    def __init__(self, shuffle_partitions: int, resume: Path | None = None) -> None:
        self.shuffle_partitions = shuffle_partitions
        self.resume = resume
        self.tasks = 0
        self.slices = 0
        self.taken: list[list[LogDirectory]] = []
        """The tasks whose results an earlier run left in `resume`."""

    def judge(self, spec: AuditSpec, logs: Sequence[LogDirectory]) -> Iterable[Answer]:
        stored = None if self.resume is None else StoredResults.open(self.resume, spec, self.shuffle_partitions)
        self.taken, rest = ([], plan(logs, spec)) if stored is None else plan_rest(stored, logs, spec)
        tasks = self.taken + rest.tasks
        self.tasks, self.slices = len(tasks), len(rest.slices)
        work = Work(spec, self.shuffle_partitions, 512, stored)
        rows: list[Row] = []
        for task in tasks:
            rows += judge_tasks(work, iter([(0, serialized(task))]))
        read = [row for each in rest.slices for row in reporting_failures(read_slices(work, iter([(0, serialized(each))])))]
        rows += judge_slices(work, iter(read))
        answers = [pickle.loads(content) for _, content in judge_shuffled(work, iter(rows))]
        for failure in answers:
            if isinstance(failure, Exception):
                raise failure
        return answers

    def draw(
        self, spec: AuditSpec, logs: Sequence[LogDirectory], drawn: Sequence[Extent], found: Sequence[FindingPlace]
    ) -> Iterable[Answer]:
        some, ends, early = limit_drawn_logs(logs, drawn, found)
        rows = [(i, serialized(task)) for i, task in enumerate(make_tasks(some, spec))]
        return [{"ends": early}, *(pickle.loads(content) for _, content in draw_tasks(Work(spec, 1, 512), ends, found, iter(rows)))]

"""Runs the work of a Spark audit in this process, without Spark: first the tasks, one after the other, then the rows that they return, one
share of them at a time."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path

from ottla.spark_jobs.kept import Kept
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.reports.pictures import Extent, Where, bounded
from ottla.spark_jobs.sharing import (
    Row,
    Work,
    draw_tasks,
    judge_shares,
    judge_slices,
    judge_tasks,
    packed,
    plan,
    plan_rest,
    read_slices,
    reporting_failures,
    share_out,
)
from ottla.spark_jobs.steps import Answer, AuditSpec


class SharedJudge:
    """A judge (`ottla.spark_jobs.judging.Judge`) that runs a Spark audit's tasks in this process, and divides their rows into `shares`
    shares."""

    name = "shares"

    def __init__(self, shares: int, resume: Path | None = None) -> None:
        self.shares = shares
        self.resume = resume
        self.tasks = 0
        self.slices = 0
        self.taken: list[list[LogDirectory]] = []
        """The tasks whose results an earlier run left in `resume`."""

    def judge(self, spec: AuditSpec, logs: Sequence[LogDirectory]) -> Iterable[Answer]:
        kept = None if self.resume is None else Kept.open(self.resume, spec, self.shares)
        self.taken, rest = ([], plan(logs, spec)) if kept is None else plan_rest(kept, logs, spec)
        tasks = self.taken + rest.tasks
        self.tasks, self.slices = len(tasks), len(rest.slices)
        work = Work(spec, self.shares, 512, kept)
        rows: list[Row] = []
        for task in tasks:
            rows += judge_tasks(work, iter([(0, packed(task))]))
        read = [row for each in rest.slices for row in reporting_failures(read_slices(work, iter([(0, packed(each))])))]
        rows += judge_slices(work, iter(read))
        answers = [pickle.loads(content) for _, content in judge_shares(work, iter(rows))]
        for failure in answers:
            if isinstance(failure, Exception):
                raise failure
        return answers

    def draw(self, spec: AuditSpec, logs: Sequence[LogDirectory], drawn: Sequence[Extent], found: Sequence[Where]) -> Iterable[Answer]:
        some, ends, early = bounded(logs, drawn, found)
        rows = [(i, packed(task)) for i, task in enumerate(share_out(some, spec))]
        return [{"ends": early}, *(pickle.loads(content) for _, content in draw_tasks(Work(spec, 1, 512), ends, found, iter(rows)))]

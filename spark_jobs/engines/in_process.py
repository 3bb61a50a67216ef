"""Judges in this process: both steps of the audit run on one embedded engine (DuckDB)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from ottla.spark_jobs.engines import EMBEDDED, Progress
from ottla.spark_jobs.engines.embedded import EmbeddedEngine, embedded_engine
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.reports.pictures import LOG_END, Extent, FindingPlace, picture_rows
from ottla.spark_jobs.steps import Answer, AuditSpec, judge_across, judge_partitions


@contextmanager
def embedded_judge(log_bytes: int, memory_mb: int, progress: Progress) -> Iterator[EmbeddedJudge]:
    """Open a judge that runs the audit in this process, for logs of this size; it is closed at the end of the `with` block. `memory_mb`:
    the memory limit of its queries."""
    with embedded_engine(log_bytes, memory_mb) as engine:
        yield EmbeddedJudge(engine, progress)


class EmbeddedJudge:
    """Runs the audit's two steps in this process, on one embedded engine (DuckDB); implements `judging.Judge`."""

    name = EMBEDDED

    def __init__(self, engine: EmbeddedEngine, progress: Progress) -> None:
        self._engine = engine
        self._progress = progress
        self._transactional = False

    def judge(self, spec: AuditSpec, logs: Sequence[LogDirectory]) -> Iterable[Answer]:
        """Run both steps of the audit, one after the other, and return their answers (findings, counts and other rows). Raises OSError if a
        log cannot be read."""
        self._progress("judging", 1, 3)
        answer, available = judge_partitions(self._engine, spec, logs)
        yield answer
        self._transactional = available.transactional
        self._progress("judging across partitions", 2, 3)
        yield judge_across(self._engine, spec, available.names)

    def draw(
        self, spec: AuditSpec, logs: Sequence[LogDirectory], drawn: Sequence[Extent], found: Sequence[FindingPlace]
    ) -> Iterable[Answer]:
        """Return the rows from which the HTML report's pictures of the partitions in `drawn` are drawn, and the headers of the batches in
        `found`. Both are queried from the views that `judge` made."""
        return [picture_rows(self._engine, [(*place, LOG_END) for place in drawn], found, transactional=self._transactional)]

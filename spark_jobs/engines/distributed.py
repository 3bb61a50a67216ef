"""Judges with Spark: Spark distributes tasks and shuffles the rows that tasks hand on; each task judges on an embedded engine.

Invariants:
- With a SparkContext the steps run over RDDs, and no SQL session is started. Without one (Spark Connect) the same steps run over
  DataFrames.
- A run is one Spark job; drawing pictures takes a second one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.spark_jobs.engines import SPARK, Progress
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.reports.pictures import Extent, Where
from ottla.spark_jobs.session import cluster
from ottla.spark_jobs.sharing import Row, Work, draw_tasks, failures_told, judge_shares, judge_tasks, share_out, shares_of
from ottla.spark_jobs.steps import Answer, Question

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Step = Callable[[Iterable[Row]], Iterator[Row]]
NAME: Final = "log partitions"
"""The name of the first step's RDD in Spark's UI and event log."""
COLUMNS: Final = "share int, content binary"


@contextmanager
def spark_judge(master: str | None, memory_mb: int, progress: Progress) -> Iterator[SparkJudge]:
    """Open a judge on the running session's context, or on a new one that stops with the block. Raises `CannotJudge`."""
    with cluster(master) as running:
        progress("judging log partitions", 1, 2)
        yield SparkJudge(running, memory_mb)


class SparkJudge:
    """A `judging.Judge` on Spark."""

    name = SPARK

    def __init__(self, running: SparkContext | SparkSession, memory_mb: int) -> None:
        self._run = over_rdds if hasattr(running, "parallelize") else over_frames
        self._running: Any = running
        self._cores: int = getattr(running, "defaultParallelism", 1)
        """The cores of the cluster. Spark Connect does not report them."""
        self._memory_mb = memory_mb

    def judge(self, question: Question, logs: Sequence[LogDirectory]) -> Iterable[Answer]:
        """Run both steps as one Spark job."""
        work = Work(question, shares_of(logs, question), self._memory_mb)
        steps = (partial(judge_tasks, work), partial(judge_shares, work))
        return self._answers(share_out(logs, question, self._cores), steps, work.shares)

    def draw(self, question: Question, logs: Sequence[LogDirectory], drawn: Sequence[Extent], found: Sequence[Where]) -> Iterable[Answer]:
        """Read the partitions with pictures again, and run `steps.draw` on them."""
        places = {place[:3] for place in (*drawn, *found)}
        some = [LogDirectory(each.path, [s for s in each.segments if (s.log_dir, s.topic, s.partition) in places]) for each in logs]
        work = Work(question, 1, self._memory_mb)
        return self._answers(share_out(some, question, self._cores), (partial(draw_tasks, work, drawn, found),), 1)

    def _answers(self, tasks: Sequence[object], steps: Sequence[Step], shares: int) -> Iterable[Answer]:
        rows = [(i, pickle.dumps(task)) for i, task in enumerate(tasks)]
        for _, content in self._run(self._running, rows, [partial(_careful, step) for step in steps], shares):
            answer: Answer | Exception = pickle.loads(content)
            if isinstance(answer, Exception):
                raise answer
            yield answer


def _careful(step: Step, rows: Iterable[Row]) -> Iterator[Row]:
    return failures_told(step(rows))


def over_rdds(context: SparkContext, rows: Sequence[Row], steps: Sequence[Step], shares: int) -> Iterable[Row]:
    """Run the first step with a task per row, and each further step with a task per share of the rows that the step before returned."""
    found = context.parallelize(rows, len(rows)).setName(NAME)
    for i, step in enumerate(steps):
        found = found.mapPartitions(step) if i == 0 else found.partitionBy(shares, int).mapPartitions(step)
    return found.collect()


def over_frames(session: SparkSession, rows: Sequence[Row], steps: Sequence[Step], shares: int) -> Iterable[Row]:
    """Do the same as `over_rdds` with DataFrames, for sessions without a SparkContext."""
    found = session.range(0, len(rows), 1, len(rows)).mapInArrow(partial(_first, steps[0], rows), COLUMNS)
    for step in steps[1:]:
        found = found.repartition(shares, "share").mapInArrow(partial(_in_arrow, step), COLUMNS)
    return [(row["share"], bytes(row["content"])) for row in found.collect()]


def _first(step: Step, rows: Sequence[Row], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _arrow(step(rows[number.as_py()] for batch in numbers for number in batch.column(0)))


def _in_arrow(step: Step, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _arrow(step((share, content) for batch in batches for share, content in zip(*batch.to_pydict().values(), strict=True)))


def _arrow(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    for share, content in rows:
        yield pa.record_batch({"share": pa.array([share], pa.int32()), "content": pa.array([content], pa.binary())})

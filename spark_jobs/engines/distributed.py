"""Judges with Spark: Spark distributes tasks and shuffles their output rows; each task judges on an embedded engine (DuckDB).

Invariants:
- With a SparkContext the steps run over RDDs, and no SQL session is started. Without one (Spark Connect) the same steps run over
  DataFrames.
- An audit is one Spark job; drawing the HTML report's pictures takes a second one. Both have a description in Spark's UI.
- With a SparkContext, progress is reported by finished tasks, each counted once, however often Spark runs it.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from ottla.spark_jobs.audit_tasks import (
    Plan,
    Row,
    Work,
    draw_tasks,
    judge_shuffled,
    judge_slices,
    judge_tasks,
    make_tasks,
    partitions_of,
    plan,
    plan_rest,
    read_slices,
    reporting_failures,
    serialized,
    shuffle_partitions_of,
    size_of,
)
from ottla.spark_jobs.engines import SPARK, Progress
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.reports.pictures import Extent, FindingPlace, limit_drawn_logs
from ottla.spark_jobs.steps import Answer, AuditSpec
from ottla.spark_jobs.stored_results import StoredResults
from ottla.spark_jobs.verdict import counted

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

Size = tuple[int, int]
"""The size of a task: the number of its log partitions, and their bytes."""
Step = Callable[[Iterable[Row]], Iterator[Row]]
NAME: Final = "log partitions"
"""The name of the first step's RDD in Spark's UI and event log."""
SLICES: Final = "slices of large log partitions"
COLUMNS: Final = "share int, content binary"
"""The columns of the DataFrame that holds the tasks' rows (`Row`): `share` is the number of the shuffle partition, `content` the pickled
data."""
DESCRIPTION: Final = "spark.job.description"
PROGRESS_S: Final = 0.5
"""The time between two progress reports, in seconds."""


class SparkJudge:
    """Runs the audit's two steps on Spark; implements `judging.Judge`. `running`: a SparkContext, or with Spark Connect a session.
    `resume`: the directory in which tasks store their results, so that a restarted run judges only the partitions without a result; None:
    results are not stored."""

    name = SPARK

    def __init__(self, running: SparkContext | SparkSession, memory_mb: int, progress: Progress, resume: Path | None) -> None:
        self._run = over_rdds if hasattr(running, "parallelize") else over_frames
        self._running: Any = running
        self._cores: int = getattr(running, "defaultParallelism", 1)
        """The number of the cluster's cores; 1 with Spark Connect, which does not report it."""
        self._memory_mb = memory_mb
        self._progress = progress
        self._resume = resume

    def judge(self, spec: AuditSpec, logs: Sequence[LogDirectory]) -> Iterable[Answer]:
        """Run both steps of the audit as one Spark job, and return their answers (findings, counts and other rows). Raises OSError if a log
        cannot be read."""
        shuffle_partitions = shuffle_partitions_of(logs, spec)
        stored = None if self._resume is None else StoredResults.open(self._resume, spec, shuffle_partitions)
        if stored is None:
            planned = plan(logs, spec, self._cores)
        else:
            taken, rest = plan_rest(stored, logs, spec, self._cores)
            planned = rest._replace(tasks=taken + rest.tasks)
            found = f"{partitions_of(taken):,} of {partitions_of(planned.judged):,} log partitions"
            print(f"{self._resume}: {found} were judged by an earlier run and did not change", file=sys.stderr)
        work = Work(spec, shuffle_partitions, self._memory_mb, stored)
        steps = [partial(step, work) for step in (judge_tasks, judge_shuffled, read_slices, judge_slices)]
        return self._answers("judging", planned, steps[:2], shuffle_partitions, steps[2:])

    def draw(
        self, spec: AuditSpec, logs: Sequence[LogDirectory], drawn: Sequence[Extent], found: Sequence[FindingPlace]
    ) -> Iterable[Answer]:
        """Read the segments that appear in the HTML report's pictures again, after `judge` has read them, and yield the rows from which the
        pictures are drawn (see `steps.draw`)."""
        some, ends, early = limit_drawn_logs(logs, drawn, found)
        yield {"ends": early}
        work = Work(spec, 1, self._memory_mb)
        planned = Plan(make_tasks(some, spec, self._cores), [], 0)
        yield from self._answers("drawing", planned, [partial(draw_tasks, work, ends, found)], 1)

    def _answers(
        self, doing: str, planned: Plan, steps: Sequence[Step], shuffle_partitions: int, split: Sequence[Step] = ()
    ) -> Iterable[Answer]:
        rows = [(i, serialized(task)) for i, task in enumerate(planned.tasks)]
        slices = [(len(rows) + i, serialized(each)) for i, each in enumerate(planned.slices)]
        safe_steps: list[Step] = [partial(_reporting_failures, step) for step in (*steps, *split)]
        with ExitStack() as stack:
            if self._run is over_rdds:
                finished = self._running.accumulator(set(), Union())
                for first in {0, *([len(steps)] if split else [])}:
                    safe_steps[first] = partial(_recording_finished, finished, safe_steps[first])
                sizes = [(partitions_of([task]), size_of(task)) for task in planned.tasks]
                sizes += [(int(each.judged is not None), size_of(each.read)) for each in planned.slices]
                partitions, size = _sums(sizes)
                what = f"ottla audit: {doing} {counted(partitions, 'log partition')}, {size / 1e9:,.2f} GB"
                stack.enter_context(described(self._running, what))
                # a copy, because Spark's thread adds to the set meanwhile
                stack.enter_context(_reporting_progress(lambda: self._progress(*progress_of(doing, sizes, finished.value.copy()))))
            apart = Split(slices, safe_steps[-2], safe_steps[-1], planned.split) if slices else None
            found = self._run(self._running, rows, safe_steps[: len(steps)], shuffle_partitions, apart)
        for _, content in found:
            answer: Answer | Exception = pickle.loads(content)
            if isinstance(answer, Exception):
                raise answer
            yield answer


def progress_of(doing: str, sizes: Sequence[Size], finished: Collection[int]) -> tuple[str, int, int]:
    """Return the arguments for a `Progress` callback: (text, finished bytes, all bytes). `doing`: the present activity, such as "judging".
    `sizes`: (partitions, bytes) of each task; `finished`: the indexes of finished tasks."""
    (partitions, size), (done, done_bytes) = _sums(sizes), _sums(sizes[number] for number in finished)
    step = f"{doing}: {done:,} of {counted(partitions, 'log partition')}, {done_bytes / 1e9:,.2f} of {size / 1e9:,.2f} GB"
    return step, done_bytes, size


def _sums(sizes: Iterable[Size]) -> Size:
    partitions, size = map(sum, zip((0, 0), *sizes, strict=True))
    return partitions, size


class Union:
    """An `AccumulatorParam` for Spark accumulators that unite sets. It does not inherit from that class, because PySpark is optional for
    this module.

    The set grows in place: copying it for each task would take time quadratic in the number of tasks.
    """

    def zero(self, _value: set[int]) -> set[int]:
        return set()

    def addInPlace(self, one: set[int], other: set[int]) -> set[int]:  # Spark's name
        one |= other
        return one


def _recording_finished(finished: Accumulator[set[int]], step: Step, rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        yield from step([row])
        finished.add({row[0]})


@contextmanager
def described(context: SparkContext, description: str) -> Iterator[None]:
    """Within the `with` block, set the description that Spark's UI shows for the jobs of this thread."""
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, description)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type] # None removes it


@contextmanager
def _reporting_progress(report: Callable[[], None]) -> Iterator[None]:
    """Call `report` at the start and the end of the `with` block, and from a thread every PROGRESS_S seconds in between."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(PROGRESS_S):
            report()

    report()
    thread = threading.Thread(target=repeat, name="audit-progress")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    report()


def _reporting_failures(step: Step, rows: Iterable[Row]) -> Iterator[Row]:
    return reporting_failures(step(rows))


class Split(NamedTuple):
    """The large partitions of an audit, each of which several tasks read. Each of `rows` is the input of one task, which runs `read`. Then
    one task per partition runs `judge` on the rows that were read. `partitions`: the number of large partitions."""

    rows: Sequence[Row]
    read: Step
    judge: Step
    partitions: int


def over_rdds(
    context: SparkContext, rows: Sequence[Row], steps: Sequence[Step], shuffle_partitions: int, split: Split | None = None
) -> Iterable[Row]:
    """Run the steps of an audit over RDDs, and return the rows of the last step. The first step has a task per input row. Each further step
    has a task per shuffle partition of the previous step's rows.

    The large partitions in `split` do not take part in the first step. `split.read` and `split.judge` read and judge them, and the
    resulting rows are added to those of the first step.
    """
    found = context.parallelize(rows, max(1, len(rows))).setName(NAME).mapPartitions(steps[0])
    if split is not None:
        read = context.parallelize(split.rows, len(split.rows)).setName(SLICES).mapPartitions(split.read)
        found = found.union(read.partitionBy(split.partitions, int).mapPartitions(split.judge))
    for step in steps[1:]:
        found = found.partitionBy(shuffle_partitions, int).mapPartitions(step)
    return found.collect()


def over_frames(
    session: SparkSession, rows: Sequence[Row], steps: Sequence[Step], shuffle_partitions: int, split: Split | None = None
) -> Iterable[Row]:
    """Run the steps of an audit over DataFrames, for sessions without a SparkContext, and return the rows of the last step. The parameters
    are those of `over_rdds`."""
    found = session.range(0, len(rows), 1, max(1, len(rows))).mapInArrow(partial(_rows_in_arrow, steps[0], rows), COLUMNS)
    if split is not None:
        read = session.range(0, len(split.rows), 1, len(split.rows)).mapInArrow(partial(_rows_in_arrow, split.read, split.rows), COLUMNS)
        adjacent = read.repartition(split.partitions, "share").sortWithinPartitions("share")
        found = found.union(adjacent.mapInArrow(partial(_in_arrow, split.judge), COLUMNS))
    for step in steps[1:]:
        found = found.repartition(shuffle_partitions, "share").mapInArrow(partial(_in_arrow, step), COLUMNS)
    return [(row["share"], bytes(row["content"])) for row in found.collect()]


def _rows_in_arrow(step: Step, rows: Sequence[Row], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _arrow(step(rows[number.as_py()] for batch in numbers for number in batch.column(0)))


def _in_arrow(step: Step, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _arrow(step((number, content) for batch in batches for number, content in zip(*batch.to_pydict().values(), strict=True)))


def _arrow(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    for number, content in rows:
        yield pa.record_batch({"share": pa.array([number], pa.int32()), "content": pa.array([content], pa.binary())})

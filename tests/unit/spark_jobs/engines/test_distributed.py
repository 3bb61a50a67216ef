"""How rows pass between the steps on Spark, over RDDs and over DataFrames, and how a failure is reported."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from client_compat.audit_corpus.cut import cut_at_every_batch
from client_compat.bench_audit import logs
from ottla.spark_jobs import audit_tasks
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.engines import distributed
from ottla.spark_jobs.engines.distributed import DESCRIPTION, Split, Union, over_frames, over_rdds, progress_of
from ottla.spark_jobs.session import CannotJudge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[int, bytes]
Over = Callable[..., Iterable[Row]]


def to_partitions(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield each row for two shuffle partitions; the second copy's content is the number of rows in the task."""
    there = list(rows)
    for number, content in there:
        yield number % 3, content
        yield (number + 1) % 3, bytes([len(there)])


def gathered(rows: Iterable[Row]) -> Iterator[Row]:
    found: dict[int, bytes] = {}
    for number, content in rows:
        found[number] = found.get(number, b"") + content
    yield from ((number, bytes(sorted(content))) for number, content in found.items())


@pytest.mark.parametrize("over", [over_rdds, over_frames])
def test_each_row_is_a_task_and_rows_of_one_share_are_gathered(spark: SparkSession, over: Over) -> None:
    rows = [(i, bytes([10 + i])) for i in range(4)]
    running = spark.sparkContext if over is over_rdds else spark
    # Task i gives its content to shuffle partition i % 3, and 1, the number of its rows, to the next one.
    assert dict(over(running, rows, [to_partitions, gathered], 3)) == {0: bytes([1, 10, 13]), 1: bytes([1, 1, 11]), 2: bytes([1, 12])}
    assert sorted(over(running, rows, [gathered], 3)) == rows


@pytest.mark.parametrize("over", [over_rdds, over_frames])
def test_rows_of_a_split_partition_are_gathered_in_one_task(spark: SparkSession, over: Over) -> None:
    slices = [(i, bytes([i % 3])) for i in range(6)]
    running = spark.sparkContext if over is over_rdds else spark
    split = Split(slices, by_content, adjacent, 3)
    found = sorted(over(running, [(9, b"whole")], [gathered, gathered], 1, split))
    assert found == [(0, bytes([0, 0])), (1, bytes([1, 1])), (2, bytes([2, 2])), (9, bytes(sorted(b"whole")))]
    assert sorted(over(running, [], [gathered], 1, split)) == found[:3]


def by_content(rows: Iterable[Row]) -> Iterator[Row]:
    yield from ((content[0], content) for _, content in rows)


def adjacent(rows: Iterable[Row]) -> Iterator[Row]:
    for number, group in groupby(rows, itemgetter(0)):
        yield number, b"".join(content for _, content in group)


@pytest.mark.parametrize("name", ["planted", "input_taken_back"])
@pytest.mark.parametrize("connect", [False, True])
def test_sliced_log_on_spark_has_the_embedded_engines_verdict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, connect: bool
) -> None:
    CASES[name].write(tmp_path / "log")
    for segment in list(tmp_path.rglob("*.log")):
        cut_at_every_batch(segment)
    expected = audit(tmp_path / "log", engine="duckdb", key_field="row", deep=True).directories
    monkeypatch.setattr(audit_tasks, "UNSPLIT_BYTES_MAX", 1)
    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MAX", 1 << 16)  # one batch
    cut: list[int] = []

    def over(context: Any, rows: Any, steps: Any, shuffle_partitions: int, split: Split | None) -> Iterable[Row]:
        assert split is not None
        cut.append(len(split.rows))
        rest = (rows, steps, shuffle_partitions, split)
        return over_frames(spark, *rest) if connect else over_rdds(context, *rest)

    monkeypatch.setattr(distributed, "over_rdds", over)
    found = audit(tmp_path / "log", engine="spark", key_field="row", deep=True).directories
    assert [asdict(each) for each in found] == [asdict(each) for each in expected]
    assert cut[0] > 1


@pytest.mark.parametrize("name", ["planted", "input_taken_back", "replay_under_another_id"])
def test_without_a_spark_context_the_verdict_is_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    log = tmp_path / "log"
    CASES[name].write(log)
    expected = audit(log, engine="duckdb", deep=True).directories
    monkeypatch.setattr(distributed, "over_rdds", lambda context, *rest: over_frames(spark, *rest))
    assert [asdict(each) for each in audit(log, engine="spark", deep=True).directories] == [asdict(each) for each in expected]


def test_unreadable_file_is_reported_alike_by_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    CASES["sound"].write(tmp_path)
    (tmp_path / "t-0" / "leader-epoch-checkpoint").symlink_to("/proc/self/mem")  # a regular file whose first page is not there
    reported = []
    for engine in ("duckdb", "spark"):
        with pytest.raises(CannotJudge) as failure:
            audit(tmp_path, engine=engine)
        reported.append(str(failure.value))
    assert reported[0] == reported[1]
    assert "leader-epoch-checkpoint" in reported[0]


def test_progress_reports_partitions_and_bytes_until_all_are_judged(spark: SparkSession, tmp_path: Path) -> None:
    logs.big(tmp_path, 300_000_000, partitions=3)
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    context = spark.sparkContext
    context.setLocalProperty(DESCRIPTION, "the notebook's own")
    reported: list[tuple[str, int, int]] = []
    descriptions: list[str | None] = []

    def note(*step: Any) -> None:
        reported.append(step)
        if threading.current_thread() is threading.main_thread():  # the description belongs to the thread that starts the job
            descriptions.append(context.getLocalProperty(DESCRIPTION))

    audit(tmp_path, engine="spark", progress=note)
    assert reported[-1] == ("judging: 3 of 3 log partitions, 0.30 of 0.30 GB", size, size)
    assert [done for _, done, _ in reported] == sorted(done for _, done, _ in reported)
    assert "ottla audit: judging 3 log partitions, 0.30 GB" in descriptions
    assert context.getLocalProperty(DESCRIPTION) == "the notebook's own"


def test_progress_counts_a_repeated_task_once() -> None:
    finished = Union()
    both = finished.addInPlace(finished.addInPlace(finished.zero(set()), {1}), {1})
    sizes = [(2, 3_000_000_000), (1, 500_000_000), (1, 1)]
    assert progress_of("judging", sizes, both) == ("judging: 1 of 4 log partitions, 0.50 of 3.50 GB", 500_000_000, 3_500_000_001)


def test_accumulator_adds_finished_tasks_in_place() -> None:
    finished = Union()
    held = finished.zero(set())
    assert finished.addInPlace(held, {1}) is held
    assert finished.zero(held) == set()
    assert held == {1}

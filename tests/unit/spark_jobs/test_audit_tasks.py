"""Judging in many tasks, with the rows between the steps in many shuffle partitions, gives the same findings as in one task."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from client_compat.audit_corpus.cut import cut_at_every_batch, cut_corpus
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs import audit as audit_module
from ottla.spark_jobs import audit_tasks
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.audit_tasks import (
    ANSWER,
    Work,
    judge_tasks,
    make_tasks,
    plan,
    reporting_failures,
    serialized,
    shuffle_partitions_of,
)
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.score import write
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.reports.pictures import Pictures
from ottla.spark_jobs.steps import SHUFFLED, AuditSpec
from tests.support.kafka_logs import PartitionWriter
from tests.support.task_judge import TaskJudge

SPEC = AuditSpec((), None, False, False, 10, {"expiration_ms": 1, "transaction_timeout_ms": 1, "replay_ms": 1})


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> TaskJudge:
    """Let `audit` judge in many tasks instead of by DuckDB in one process."""
    judge = TaskJudge(shuffle_partitions=3)

    @contextmanager
    def chosen(*_: object) -> Iterator[TaskJudge]:
        yield judge

    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MIN", 1)
    monkeypatch.setattr(audit_module, "open_judge", chosen)
    return judge


def test_verdict_of_the_whole_corpus_does_not_depend_on_tasks_and_shares(
    tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(CASES, tmp_path)
    single = [tmp_path / name for name, case in CASES.items() if not case.directories]
    in_tasks, drawn_in_tasks = _judged(single)
    assert shared.tasks > 10
    monkeypatch.undo()
    in_one, drawn_in_one = _judged(single)
    for distributed, embedded in zip(in_tasks, in_one, strict=True):
        assert distributed == embedded
    assert drawn_in_tasks == drawn_in_one


@pytest.mark.parametrize(("first", "options"), [(0, {"deep": False}), (2, {"deep": True, "key_field": "row"})])
def test_verdict_of_the_corpus_does_not_depend_on_slices(
    tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch, first: int, options: dict[str, Any]
) -> None:
    """Every fourth case's log is split at every batch. `make spark-releases` judges all cases on Spark."""
    paths = cut_corpus(tmp_path, slice(first, None, 4))
    _make_each_segment_a_slice(monkeypatch)
    in_slices = audit(paths, engine="duckdb", **options).directories
    assert shared.slices > 100
    monkeypatch.undo()
    for sliced, whole in zip(in_slices, audit(paths, engine="duckdb", **options).directories, strict=True):
        assert asdict(sliced) == asdict(whole)


@pytest.mark.parametrize(
    ("rule", "options"),
    [("suspected-replay", {"deep": True}), ("business-key", {"key_field": "row"}), ("business-key", {"key_field": "key:"})],
)
def test_copies_in_two_slices_are_found(
    tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch, rule: str, options: dict[str, Any]
) -> None:
    CASES["replay_under_another_id"].write(tmp_path)
    for segment in list(tmp_path.rglob("*.log")):
        cut_at_every_batch(segment)
    _make_each_segment_a_slice(monkeypatch)
    (sliced,) = audit(tmp_path, engine="duckdb", **options).directories
    assert shared.slices > 1
    assert sliced.rules[rule].samples
    monkeypatch.undo()
    (whole,) = audit(tmp_path, engine="duckdb", **options).directories
    assert asdict(sliced) == asdict(whole)


def test_business_key_in_headers_is_found_across_slices(tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for _ in range(2):
        log.batch(build_batch([SimpleRecord(None, b"v", 1, [("id", b"7")])]))
        log.roll()
    _make_each_segment_a_slice(monkeypatch)
    (verdict,) = audit(tmp_path, engine="duckdb", key_field="header:id").directories
    assert shared.slices > 1
    (finding,) = verdict.rules["business-key"].samples
    assert (finding.offset, finding.evidence["business_key"], finding.evidence["first_offset"]) == (1, "7", 0)


def _make_each_segment_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MAX", 1)
    monkeypatch.setattr(audit_tasks, "UNSPLIT_BYTES_MAX", 1)


def test_topics_transaction_costs_include_its_partitions_without_transactions(
    tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_transactions = PartitionWriter(tmp_path, "t", 0)
    with_transactions.data(pid=1, seq=0, transactional=True)
    with_transactions.marker(1)
    PartitionWriter(tmp_path, "t", 1).data(50)
    (in_tasks,) = audit(tmp_path, engine="duckdb").directories
    assert shared.tasks == 2
    assert [cost.size_bytes for cost in in_tasks.costs] == [in_tasks.size_bytes]
    monkeypatch.undo()
    assert in_tasks.costs == audit(tmp_path, engine="duckdb").directories[0].costs


def test_a_large_partition_is_read_in_slices_and_judged_by_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for _ in range(3):
        log.data()
        log.roll()
    PartitionWriter(tmp_path, "u", 0).data()
    found = [find_logs(tmp_path)]
    assert [len(each) for each in plan(found, SPEC)[:2]] == [1, 0]
    monkeypatch.setattr(audit_tasks, "UNSPLIT_BYTES_MAX", 1000)
    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MAX", 1)
    planned = plan(found, SPEC)
    assert [sorted(places(task)) for task in planned.tasks] == [[(tmp_path.name, "u", 0)]]
    assert [(each.number, len(each.read[0].segments)) for each in planned.slices] == [(0, 1)] * 4
    assert [each.judged is not None for each in planned.slices] == [True, False, False, False]
    assert sum(len(found.segments) for task in planned.judged for found in task) == 5
    for audit_request in (replace(SPEC, deep=True, replicas=True), replace(SPEC, key_place="key")):
        assert len(plan(found, audit_request).slices) == 4


def test_picture_of_a_large_partition_shows_its_start_and_the_batches_of_findings(
    tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for sequence in (0, 5, 12):  # batches of five records: the third, in a segment of its own, has a gap before it
        log.data(pid=7, seq=sequence, transactional=sequence == 0)
        if sequence == 0:
            log.marker(7)
        log.roll()
    monkeypatch.setattr("ottla.spark_jobs.reports.pictures.DRAWN_BYTES_MAX", 1)
    pictures: dict[str, Pictures] = {}
    (verdict,) = audit(tmp_path, engine="duckdb", pictures=pictures).directories
    ((picture,), batches) = pictures[verdict.path].partitions, pictures[verdict.path].batches
    assert picture.end_offset == 6
    assert [(span.first_offset, span.last_offset, span.batches) for span in picture.spans] == [(0, 4, 1)]
    assert [(txn.first_offset, txn.outcome) for txn in picture.transactions] == [(0, "commit")]
    (finding,) = verdict.rules["sequence-gap"].samples
    assert batches[finding.file, finding.position]["base_offset"] == finding.offset == 11


def _judged(paths: list[Path]) -> tuple[list[dict[str, object]], dict[str, dict[str, object]]]:
    pictures: dict[str, Pictures] = {}
    verdict = audit(paths, key_field="row", engine="duckdb", deep=True, pictures=pictures)
    return [asdict(directory) for directory in verdict.directories], {path: asdict(each) for path, each in pictures.items()}


@pytest.mark.parametrize("sliced", [False, True])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.directories])
def test_verdict_on_replicas_does_not_depend_on_tasks(
    tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch, name: str, sliced: bool
) -> None:
    write({name: CASES[name]}, tmp_path)
    if sliced:
        for segment in list(tmp_path.rglob("*.log")):
            cut_at_every_batch(segment)
        _make_each_segment_a_slice(monkeypatch)
    paths = [tmp_path / name / directory for directory in CASES[name].directories]
    in_tasks = audit(paths, replicas=True, engine="duckdb")
    assert (shared.slices > 1) == sliced
    monkeypatch.undo()
    assert [asdict(d) for d in in_tasks.directories] == [asdict(d) for d in audit(paths, replicas=True, engine="duckdb").directories]


@pytest.mark.parametrize("topics", [["payments"], ["__consumer_offsets", "payments"]])
def test_verdict_on_selected_topics_does_not_depend_on_tasks(
    tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch, topics: list[str]
) -> None:
    golden = Path(__file__).parents[2] / "golden" / "kafka_log"
    in_tasks = audit(golden, topics=topics, engine="duckdb")
    monkeypatch.undo()
    assert [asdict(d) for d in in_tasks.directories] == [asdict(d) for d in audit(golden, topics=topics, engine="duckdb").directories]


def places(task: list[LogDirectory]) -> set[tuple[str, str, int]]:
    return {(Path(found.path).name, segment.topic, segment.partition) for found in task for segment in found.segments}


def logs_of(root: Path, *brokers: str) -> list[LogDirectory]:
    for broker in brokers:
        for topic, partition in (("t", 0), ("t", 1), ("__consumer_offsets", 3), ("__consumer_offsets", 4)):
            PartitionWriter(root / broker, topic, partition).data()
    return [find_logs(root / broker) for broker in brokers]


def test_task_has_whole_partitions_and_all_of_an_internal_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = logs_of(tmp_path, "a", "b")
    together = make_tasks(logs, SPEC)
    assert [len(places(task)) for task in together] == [8]
    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MIN", 1)
    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MAX", 1)
    apart = sorted(sorted(places(task)) for task in make_tasks(logs, SPEC))
    coordinators = [[(broker, "__consumer_offsets", 3), (broker, "__consumer_offsets", 4)] for broker in "ab"]
    assert apart == sorted([*coordinators, *([(broker, "t", index)] for broker in "ab" for index in (0, 1))])


def test_more_cores_give_more_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = logs_of(tmp_path, "a", "b")
    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MIN", 1)
    monkeypatch.setattr(audit_tasks, "TASKS_WANTED", 1)
    one, several = make_tasks(logs, SPEC, cores=1), make_tasks(logs, SPEC, cores=4)
    assert len(one) < len(several) == 6


def test_replicas_of_a_partition_are_in_one_task_when_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MIN", 1)
    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MAX", 1)
    audit_request = AuditSpec(("t",), None, True, True, 10, SPEC.args)
    tasks = [sorted(places(task)) for task in make_tasks(logs_of(tmp_path, "a", "b"), audit_request)]
    assert sorted(tasks) == [[("a", "t", 0), ("b", "t", 0)], [("a", "t", 1), ("b", "t", 1)]]


def test_business_keys_give_more_shares_than_transactions(tmp_path: Path) -> None:
    (found,) = logs_of(tmp_path, "a")
    assert shuffle_partitions_of([found], SPEC) == 1
    large = LogDirectory("a", [replace(found.segments[0], size_bytes=20 << 30)])
    assert (shuffle_partitions_of([large], SPEC), shuffle_partitions_of([large], AuditSpec((), "key", False, False, 10, {}))) == (2, 21)


def test_each_share_gets_empty_tables_if_it_has_no_rows(tmp_path: Path) -> None:
    rows = list(judge_tasks(Work(SPEC, 3, 512), iter([(0, serialized(logs_of(tmp_path, "a")))])))
    assert [number for number, _ in rows] == [ANSWER, 0, 1, 2]
    given = [pickle.loads(content) for _, content in rows[1:]]
    assert [sorted(blobs) for blobs in given] == [sorted(SHUFFLED.keys() - {"visible_records", "share_ends"})] * 3


@pytest.mark.parametrize("failure", [OSError(5, "Input/output error", "a.log"), MemoryError("too little")])
def test_failed_task_returns_its_exception(failure: Exception) -> None:
    def failing() -> Iterator[tuple[int, bytes]]:
        yield 0, b""
        raise failure

    first, (number, content) = reporting_failures(failing())
    raised = pickle.loads(content)
    assert (first, number, type(raised), str(raised)) == ((0, b""), ANSWER, type(failure), str(failure))

"""A repeated audit takes over the results that a killed one has stored, and nothing else."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from client_compat.audit_corpus.cut import cut_at_every_batch
from client_compat.bench_audit import logs
from ottla.spark_jobs import audit as audit_module
from ottla.spark_jobs import audit_tasks, tables
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.score import write
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.steps import AuditSpec
from ottla.spark_jobs.stored_results import RESULT, StoredResults, code_digest
from tests.support.task_judge import TaskJudge

SPEC = AuditSpec((), None, False, False, 10, {})
DEADLINE_S = 300


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskJudge:
    """Let `audit` judge in one task per partition, with stored results, instead of by DuckDB in one process."""
    judge = TaskJudge(shuffle_partitions=3, resume=tmp_path / "kept")

    @contextmanager
    def chosen(*_: object) -> Iterator[TaskJudge]:
        yield judge

    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MIN", 1)
    monkeypatch.setattr(audit_tasks, "FILE_BYTES", 0)
    monkeypatch.setattr(audit_module, "open_judge", chosen)
    return judge


def judged(paths: Path | list[Path], **options: Any) -> list[dict[str, object]]:
    return [asdict(directory) for directory in audit(paths, engine="duckdb", **options).directories]


def results(directory: Path) -> dict[str, int]:
    """Return the inode of each stored result by file name; a result that is written again has another inode."""
    return {path.name: path.stat().st_ino for path in directory.iterdir()}


def test_resumed_audit_of_the_corpus_reuses_every_result_with_the_same_verdict(
    tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(CASES, tmp_path)
    paths = [tmp_path / name for name, case in CASES.items() if not case.directories]
    options = {"key_field": "row", "deep": True}
    first, before = judged(paths, **options), results(tmp_path / "kept")
    assert (len(shared.taken), len(before)) == (0, shared.tasks)
    second = judged(paths, **options)
    assert len(shared.taken) == shared.tasks > 10
    assert results(tmp_path / "kept") == before
    monkeypatch.undo()
    assert first == second == judged(paths, **options)


def three_partitions(root: Path) -> Path:
    logs.big(root, 200_000, partitions=3)
    return root


def test_partition_with_an_unreadable_slice_stores_no_result(tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    CASES["planted"].write(tmp_path / "log")
    for segment in list(tmp_path.rglob("*.log")):
        cut_at_every_batch(segment)
    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MAX", 1)
    monkeypatch.setattr(audit_tasks, "UNSPLIT_BYTES_MAX", 1)
    read = tables.read

    def failing(level: str, cut: list[LogDirectory], *rest: Any) -> Iterator[Any]:
        if cut[0].segments[0].base_offset:
            raise OSError("the disk failed")
        return read(level, cut, *rest)

    with monkeypatch.context() as failure:
        failure.setattr(tables, "read", failing)
        with pytest.raises(CannotJudge, match="the disk failed"):
            judged(tmp_path / "log", deep=True)
    resumed = judged(tmp_path / "log", deep=True)
    assert shared.slices > 1
    monkeypatch.undo()
    assert resumed == judged(tmp_path / "log", deep=True)


@pytest.mark.parametrize("change", ["appended", "rewritten"])
def test_only_a_changed_partition_is_judged_again(tmp_path: Path, shared: TaskJudge, change: str) -> None:
    log = three_partitions(tmp_path / "log")
    (clean,) = judged(log)
    segment = log / "big-1" / f"{0:020d}.log"
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1  # the last batch gets a wrong CRC
    segment.write_bytes(content + content[-1:] if change == "appended" else content)
    (changed,) = judged(log)
    assert (len(shared.taken), shared.tasks) == (2, 3)
    assert {s.topic + str(s.partition) for task in shared.taken for found in task for s in found.segments} == {"big0", "big2"}
    assert clean["rules"]["crc"]["violations"] == 0  # type: ignore[index] # of asdict
    assert changed["rules"]["crc"]["violations"] == 1  # type: ignore[index] # of asdict


def test_other_options_rejudge_every_partition(tmp_path: Path, shared: TaskJudge) -> None:
    log = three_partitions(tmp_path / "log")
    judged(log)
    judged(log, producer_expiration_ms=5)
    assert (len(shared.taken), shared.tasks) == (0, 3)


def test_results_of_other_code_are_not_reused(tmp_path: Path, shared: TaskJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    log = three_partitions(tmp_path / "log")
    judged(log)
    monkeypatch.setattr("ottla.spark_jobs.stored_results.code_digest", lambda: "other")
    judged(log)
    assert shared.taken == []


def test_the_code_digest_changes_with_a_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checks").mkdir()
    rule = tmp_path / "checks" / "crc.py"
    rule.write_text("SQL = 1")
    monkeypatch.setattr("ottla.spark_jobs.stored_results.files", lambda _: tmp_path)
    before = code_digest()
    assert code_digest() == before
    rule.write_text("SQL = 2")
    assert code_digest() != before


@pytest.mark.parametrize("part", [0.3, 0.9, 1.0])
def test_a_truncated_or_overwritten_result_is_judged_again(tmp_path: Path, shared: TaskJudge, part: float) -> None:
    log = three_partitions(tmp_path / "log")
    expected, before = judged(log), results(tmp_path / "kept")
    for path in (tmp_path / "kept").iterdir():
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * part)] if part < 1 else bytes(len(content)))
    assert judged(log) == expected
    assert shared.taken == []
    assert results(tmp_path / "kept").keys() == before.keys()
    assert judged(log) == expected
    assert len(shared.taken) == 3


class Planted:
    """An object that makes a directory when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.trace),)


def test_pickled_code_in_a_stored_result_is_not_executed(tmp_path: Path) -> None:
    stored = StoredResults.open(tmp_path / "kept", SPEC, 1)
    hostile = pickle.dumps(Planted(tmp_path / "trace"))
    with pytest.raises(pickle.UnpicklingError, match="mkdir is not a value"):
        list(stored.load_or_judge(["a"], lambda: [(0, hostile)]))
    assert list(stored.load_or_judge(["a"], lambda: [(0, pickle.dumps(["sound"]))])) == [(0, pickle.dumps(["sound"]))]
    assert not (tmp_path / "trace").exists()


def test_failed_task_stores_no_result(tmp_path: Path) -> None:
    stored = StoredResults.open(tmp_path / "kept", SPEC, 1)

    def failing() -> Iterator[tuple[int, bytes]]:
        yield 0, b"some"
        raise OSError("the disk failed")

    with pytest.raises(OSError, match="the disk failed"):
        list(stored.load_or_judge(["a"], failing))
    assert list((tmp_path / "kept").iterdir()) == []


def test_partial_results_of_killed_tasks_are_removed(tmp_path: Path) -> None:
    (tmp_path / "x.1.partial").touch()
    StoredResults.open(tmp_path, SPEC, 1)
    assert list(tmp_path.iterdir()) == []


def test_resume_is_rejected_for_duckdb_and_for_brokers(tmp_path: Path) -> None:
    log = three_partitions(tmp_path / "log")
    with pytest.raises(CannotJudge, match="--resume needs --engine spark"):
        audit(log, engine="duckdb", resume=tmp_path / "kept")
    (tmp_path / "file").touch()
    with pytest.raises(CannotJudge, match="file: File exists"):
        audit(log, engine="spark", resume=tmp_path / "file")
    with pytest.raises(CannotJudge, match="a URL is no directory"):
        audit(log, engine="spark", resume=Path("s3://bucket/kept"))


@pytest.mark.slow  # starts Spark three times
def test_a_killed_audit_is_resumed_with_the_same_verdict(tmp_path: Path) -> None:
    log, kept = tmp_path / "log", tmp_path / "kept"
    CASES["planted"].write(log)
    logs.many_partitions(log, 700)
    command = [sys.executable, "-m", "ottla", "audit", "--engine", "spark", "--master", "local[1]", "--json"]
    killed = subprocess.Popen([*command, str(tmp_path / "killed.json"), "--resume", str(kept), str(log)])
    deadline = time.monotonic() + DEADLINE_S
    while not list(kept.glob("*" + RESULT)):
        assert killed.poll() is None
        assert time.monotonic() < deadline
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    before = results(kept)
    resumed, whole = (
        subprocess.run([*command, str(tmp_path / f"{name}.json"), *more, str(log)], capture_output=True, text=True, check=False)
        for name, more in (("resumed", ["--resume", str(kept)]), ("whole", []))
    )
    assert resumed.returncode == whole.returncode == 1
    taken, total = resumed.stderr.partition(" log partitions were judged by an earlier run")[0].rpartition(": ")[2].split(" of ")
    assert 0 < int(taken) < int(total)
    assert int(total) == json.loads((tmp_path / "whole.json").read_text())["directories"][0]["partitions"] > 700
    assert {name: inode for name, inode in results(kept).items() if name in before and name.endswith(RESULT)}.items() <= before.items()
    assert without_seconds(tmp_path / "resumed.json") == without_seconds(tmp_path / "whole.json")


@pytest.mark.slow  # starts Spark
@pytest.mark.skipif(sys.platform != "linux", reason="finds Spark's workers in /proc")
def test_verdict_is_unchanged_when_workers_are_killed(tmp_path: Path) -> None:
    log, kept, report = tmp_path / "log", tmp_path / "kept", tmp_path / "verdict.json"
    CASES["planted"].write(log)
    logs.many_partitions(log, 700)
    command = [sys.executable, "-m", "ottla", "audit", "--engine", "spark", "--master", "local[2,4]", "--json", str(report)]
    running = subprocess.Popen([*command, "--resume", str(kept), str(log)])
    deadline = time.monotonic() + DEADLINE_S
    while not list(kept.glob("*" + RESULT)):
        assert running.poll() is None
        assert time.monotonic() < deadline
    workers = python_workers(running.pid)
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    assert workers
    assert len(list(kept.glob("*" + RESULT))) < 10  # most tasks were still to be judged
    assert running.wait(DEADLINE_S) == 1
    assert json.loads(report.read_text())["directories"] == json.loads(audit(log, engine="duckdb", deep=False).to_json())["directories"]


def python_workers(root: int) -> list[int]:
    """Return the processes below `root` that PySpark's daemon forked."""
    parents: dict[int, int] = {}
    daemons = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.worker" in (process / "cmdline").read_bytes():
                daemons.add(int(process.name))

    def below(process: int) -> bool:
        return process == root or (process in parents and below(parents[process]))

    return [each for each in daemons if parents.get(each) in daemons and below(each)]


def without_seconds(verdict: Path) -> str:
    return "".join(line for line in verdict.read_text().splitlines(keepends=True) if not line.startswith('  "seconds"'))

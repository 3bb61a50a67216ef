"""The estimate of an audit, compared with the requests and bytes of the audit itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from client_compat.bench_audit import logs
from ottla.spark_jobs import audit as audit_module
from ottla.spark_jobs import audit_tasks
from ottla.spark_jobs.audit import audit, audit_command
from ottla.spark_jobs.estimate import estimate
from ottla.spark_jobs.filesystem import Location, RandomAccess
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.steps import AuditSpec
from tests.support.task_judge import TaskJudge

SPEC = AuditSpec((), None, False, False, 10, {})


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the listings, opens and reads that would be LIST, HEAD and GET requests to an object store."""
    seen: Counter[str] = Counter()

    def counted(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: object) -> object:
            seen[name] += 1
            return real(*args)

        monkeypatch.setattr(owner, name, call)

    for owner, name in ((Location, "entries"), (Location, "open"), (RandomAccess, "read_at"), (RandomAccess, "read_into")):
        counted(owner, name)
    return seen


@pytest.fixture
def in_tasks(monkeypatch: pytest.MonkeyPatch) -> TaskJudge:
    judge = TaskJudge(shuffle_partitions=1)

    @contextmanager
    def chosen(*_: object) -> Iterator[TaskJudge]:
        yield judge

    monkeypatch.setattr(audit_module, "open_judge", chosen)
    return judge


@pytest.mark.parametrize("deep", [False, True])
def test_estimate_of_requests_and_tasks_is_close_to_the_audits(
    tmp_path: Path, requests: Counter[str], in_tasks: TaskJudge, deep: bool
) -> None:
    logs.big(tmp_path, 80_000_000, partitions=4)
    logs.many_partitions(tmp_path, 30)
    estimated = estimate([find_logs(tmp_path)], replace(SPEC, deep=deep), cores=1)
    requests.clear()
    verdict = audit(tmp_path, engine="duckdb", deep=deep).directories[0]
    assert (estimated.size_bytes, estimated.partitions, estimated.segments) == (verdict.size_bytes, verdict.partitions, verdict.segments)
    assert estimated.tasks == in_tasks.tasks == 4
    requests["entries"] //= 2  # a local directory is listed twice, because a broker may be writing to it; a remote one once
    assert estimated.requests == pytest.approx(requests.total(), rel=0.02)


def test_estimate_opens_only_checkpoint_files(tmp_path: Path, requests: Counter[str]) -> None:
    logs.big(tmp_path, 1_000_000)
    estimate([find_logs(tmp_path)], SPEC, cores=1)
    assert requests["read_at"] == requests["read_into"] == 0
    assert requests["open"] == 3  # the checkpoints, which this directory does not have


def test_estimate_for_records_and_keys_exceeds_that_for_batches(tmp_path: Path) -> None:
    logs.big(tmp_path, 1_000_000)
    found = [find_logs(tmp_path)]
    questions = [SPEC, replace(SPEC, deep=True), replace(SPEC, key_place="value", deep=True)]
    hours = [estimate(found, spec, cores=2).core_hours for spec in questions]
    assert hours == sorted(set(hours))


def test_estimate_option_prints_the_estimate_of_the_requested_topics(tmp_path: Path) -> None:
    logs.big(tmp_path, 1_000_000)
    logs.many_partitions(tmp_path, 5)
    app = typer.Typer()
    app.command()(audit_command)
    done = CliRunner().invoke(app, [str(tmp_path), "--topic", "many", "--estimate"])
    assert done.exit_code == 0
    assert "5 segments of 5 partitions" in done.stdout
    assert CliRunner().invoke(app, [str(tmp_path / "none"), "--estimate"]).exit_code == 2
    assert "over the wire there are none" in CliRunner().invoke(app, ["kafka://h:1", "--estimate"]).stderr


def test_estimate_uses_the_masters_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.many_partitions(tmp_path, 8)
    monkeypatch.setattr(audit_tasks, "TASK_BYTES_MIN", 1)
    monkeypatch.setattr(audit_tasks, "TASKS_WANTED", 1)
    app = typer.Typer()
    app.command()(audit_command)

    def tasks_line(*master: str) -> str:
        (line,) = [line for line in CliRunner().invoke(app, [str(tmp_path), "--estimate", *master]).stdout.splitlines() if "tasks" in line]
        return line

    assert tasks_line("--master", "local[1]") == "Spark tasks:  4 that read logs, with 1 core"
    assert tasks_line("--master", "local[4]") == "Spark tasks:  8 that read logs, with 4 cores"
    assert "as on this machine" in tasks_line("--master", "spark://host:7077")
    monkeypatch.setenv("SPARK_MASTER", "local[4]")
    assert tasks_line() == tasks_line("--master", "local[4]")

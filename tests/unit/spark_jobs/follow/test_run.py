"""Following logs with Spark: each finding is reported once, also over restarts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from ottla.spark_jobs.audit import PRODUCER_EXPIRATION_MS, TRANSACTION_TIMEOUT_MS, audit_command
from ottla.spark_jobs.follow.checkpoint import FollowCheckpoint
from ottla.spark_jobs.follow.run import FollowOptions, FollowTotals, follow, follow_command
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.sinks import TableFormat
from tests.support.kafka_logs import PartitionWriter
from tests.support.spark import spark
from tests.support.tables import read_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]
ARGS = {"expiration_ms": PRODUCER_EXPIRATION_MS, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS}


def once(spark: SparkSession, tmp_path: Path, **options: Any) -> tuple[FollowTotals, list[tuple[str, int]]]:
    reported: list[tuple[str, int]] = []

    def on_findings(_number: int, findings: Sequence[Mapping[str, Any]]) -> None:
        reported.extend((finding["rule"], finding["offset"]) for finding in findings)

    job = FollowOptions([tmp_path / "logs"], tmp_path / "checkpoint", ARGS, once=True, **options)
    return follow(spark, job, on_findings, threading.Event()), reported


def test_restarted_follower_reports_only_new_findings_and_knows_the_state(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path / "logs", "t", 0)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=1, seq=0)
    followed, reported = once(spark, tmp_path)
    assert (reported, followed.batches, followed.exit_code) == ([("duplicate-sequence", 5)], 2, 1)
    followed, reported = once(spark, tmp_path)
    assert (reported, followed.batches, followed.exit_code) == ([], 0, 0)
    log.data(5, pid=1, seq=0)
    followed, reported = once(spark, tmp_path)
    assert (reported, followed.batches) == ([("duplicate-sequence", 10)], 1)


def test_follower_stops_when_requested_and_its_micro_batches_are_limited(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path / "logs", "t", 0)
    for i in range(4):
        log.data(5, pid=1, seq=10 * i)
    stop = threading.Event()
    reported: list[int] = []

    def on_findings(number: int, findings: Sequence[Mapping[str, Any]]) -> None:
        reported.extend(number for _ in findings)
        if len(reported) == 3:
            stop.set()

    job = FollowOptions([tmp_path / "logs"], tmp_path / "checkpoint", ARGS, trigger_seconds=0.1, batch_bytes_max=10)
    followed = follow(spark, job, on_findings, stop)
    assert reported == [1, 2, 3]
    assert followed.exit_code == 1


def test_micro_batch_without_a_spark_commit_is_not_reported_twice(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path / "logs", "t", 0)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=1, seq=0)
    assert once(spark, tmp_path)[1] == [("duplicate-sequence", 5)]
    for commit in (FollowCheckpoint(tmp_path / "checkpoint").stream / "commits").iterdir():
        commit.unlink()
    assert once(spark, tmp_path)[1] == []


def test_missing_path_and_cluster_url_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    for path, why in ((str(tmp_path / "none"), "is no directory"), ("kafka://localhost:1", "only files are followed")):
        with pytest.raises(CannotJudge, match=why):
            follow(spark, FollowOptions([path], tmp_path / "c", ARGS, once=True), lambda *_: None, threading.Event())


def test_unreadable_partition_and_missing_topic_are_rejected_before_spark_reads(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path / "logs", "t", 0)
    log.data(5)
    never: Any = None
    with pytest.raises(CannotJudge, match="no partition of misspelt here"):
        follow(never, FollowOptions([tmp_path / "logs"], tmp_path / "c", ARGS, ["misspelt"], once=True), never, never)
    log.file.with_suffix(".log.swap").touch()
    PartitionWriter(tmp_path / "logs", "t", 1)
    for once in (True, False):
        with pytest.raises(CannotJudge, match="t-0 is not judged"):
            follow(never, FollowOptions([tmp_path / "logs"], tmp_path / "c", ARGS, once=once), never, never)


def test_follow_command_prints_findings_and_writes_json_lines(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path / "logs", "t", 0)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=1, seq=8)
    app = typer.Typer()
    app.command()(audit_command)
    arguments = ["--follow", "--once", "--checkpoint", str(tmp_path / "c"), "--json", str(tmp_path / "out.jsonl"), str(tmp_path / "logs")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1, result.output
    assert "violation  sequence-gap: sequence gap  t-0@5" in result.output
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(line)["evidence"]["missing"] == 3


KILLED_RUN = """
import os, signal, sys
from pathlib import Path
from ottla.spark_jobs.follow import checkpoint as checkpoints
from ottla.spark_jobs.follow.run import FollowOptions, follow_command
from ottla.spark_jobs.sinks import TableFormat

logs, checkpoint, lines, tables, kind, moment, number = sys.argv[1:]
owner = getattr(checkpoints, kind)
method = "store_state" if kind == "FollowCheckpoint" else "append"
real = getattr(owner, method)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def last(self, at, what):
    if moment == "before" and at == int(number):
        die()
    real(self, at, what)
    if moment == "torn" and at == int(number):
        os.truncate(lines, os.path.getsize(lines) - 7)
    if moment != "before" and at == int(number):
        die()

setattr(owner, method, last)
args = {"expiration_ms": 86_400_000, "transaction_timeout_ms": 900_000}
follow_command(FollowOptions([logs], Path(checkpoint), args, once=True, batch_bytes_max=10), Path(lines), (TableFormat.DELTA, Path(tables)))
"""
"""Follows logs, and kills itself at one moment of one micro-batch."""


@pytest.mark.slow
def test_kills_between_findings_state_and_commit_write_each_finding_once(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path / "logs", "t", 0)
    for i in range(8):
        log.data(5, pid=1, seq=10 * i)
    kills = (
        ("FindingsTable", "before", 1),
        ("FindingsTable", "after", 2),
        ("JsonLines", "torn", 3),
        ("FollowCheckpoint", "before", 4),
        ("FollowCheckpoint", "after", 5),
    )
    tables = tmp_path / "tables"
    for kind, moment, number in kills:
        argv = [tmp_path / "logs", tmp_path / "c", tmp_path / "lines", tables, kind, moment, number]
        killed = subprocess.run([sys.executable, "-c", KILLED_RUN, *map(str, argv)], capture_output=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    job = FollowOptions([tmp_path / "logs"], tmp_path / "c", ARGS, once=True, batch_bytes_max=10)
    assert follow_command(job, tmp_path / "lines", (TableFormat.DELTA, tables)) == 1
    reported = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert [(one["micro_batch"], one["rule"], one["offset"]) for one in reported] == [(i, "sequence-gap", 5 * i) for i in range(1, 8)]
    rows = read_back(TableFormat.DELTA, tables, "followed_findings")
    assert sorted((row["micro_batch"], row["rule"], row["offset"]) for row in rows) == [(i, "sequence-gap", 5 * i) for i in range(1, 8)]

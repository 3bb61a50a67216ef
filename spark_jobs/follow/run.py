"""`ottla audit --follow`: Structured Streaming over kafka_log; each micro-batch is judged when it arrives.

Invariants:
- Executors read the bytes and compute checksums; the driver judges the headers.
- A micro-batch's findings are written first, then its state, then Spark commits it. A kill in between repeats the micro-batch: the file of
  JSON lines and the table then have each finding once (see `checkpoint`). Only standard output, which cannot be taken back, may repeat a
  micro-batch's findings; its JSON lines contain the micro-batch's number.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from ottla.protocol.printable import printable_name
from ottla.spark_jobs import views
from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.follow.checkpoint import FindingsTable, FollowCheckpoint, JsonLines
from ottla.spark_jobs.follow.judge import CONTINUOUS, judge
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.paths import absolute
from ottla.spark_jobs.session import CannotJudge, session
from ottla.spark_jobs.sinks import TableFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH_BYTES_MAX: Final = 256 << 20
"""The maximum number of log bytes per micro-batch: their batch headers fit into the driver's memory even if each batch is one small record.
"""
POLL_SECONDS: Final = 0.2
OnFindings = Callable[[int, Sequence[Mapping[str, Any]]], None]
"""A callback that gets a micro-batch's number and its findings. If the process is killed before the state after the micro-batch is stored,
Spark repeats the micro-batch, and the callback is called again."""


@dataclass(slots=True)
class FollowTotals:
    """The totals of one run of the continuous audit. `counts`: the number of findings for each severity."""

    micro_batches: int = 0
    batches: int = 0
    records: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def exit_code(self) -> int:
        """1 if this run reported a violation, otherwise 0."""
        return 1 if self.counts[Severity.VIOLATION] else 0


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """The parameters of one run of the continuous audit (`ottla audit --follow`). `paths`: the logs. `checkpoint`: the directory of its
    state. `args`: values for the rules' SQL, such as `expiration_ms`. `once`: stop at the current end of the logs; otherwise look for new
    bytes every `trigger_seconds`."""

    paths: Sequence[str | Path]
    checkpoint: Path
    args: Mapping[str, Any]
    topics: Sequence[str] = ()
    trigger_seconds: float = 5.0
    once: bool = False
    master: str | None = None
    batch_bytes_max: int = BATCH_BYTES_MAX


def follow(spark: SparkSession, job: FollowOptions, on_findings: OnFindings, stop: threading.Event) -> FollowTotals:
    """Judge the batches that are appended to the logs in `job`, until `stop` is set or, with `job.once`, until everything is read. Call
    `on_findings` for each micro-batch, and return the totals. Raises CannotJudge when a log or the checkpoint cannot be read."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 # imports PySpark, which is optional

    for path in job.paths:
        if str(path).startswith("kafka://"):
            raise CannotJudge(f"{path}: only files are followed")
        if "://" not in str(path) and not Path(path).is_dir():
            raise CannotJudge(f"{path} is no directory")
        logs = find_logs(absolute(path), job.topics)
        if problems := [each for each in logs.problems if job.once or logs.segments]:  # otherwise a log may still be created
            raise CannotJudge("; ".join(problems))
    followed = FollowTotals()
    query = _start(spark, job, FollowCheckpoint(job.checkpoint.absolute()), followed, on_findings)
    try:
        while not query.awaitTermination(POLL_SECONDS):  # type: ignore[arg-type] # PySpark accepts fractions of a second
            if stop.is_set():
                break
    except StreamingQueryException as e:
        raise CannotJudge(str(e).split("\n\n", 1)[0]) from e
    finally:
        query.stop()
    return followed


def _start(
    spark: SparkSession, job: FollowOptions, checkpoint: FollowCheckpoint, followed: FollowTotals, on_findings: OnFindings
) -> StreamingQuery:
    from ottla.spark_jobs.source import KafkaLogSource  # noqa: PLC0415 # imports PySpark, which is optional

    spark.dataSource.register(KafkaLogSource)
    frame = spark.readStream.format("kafka_log").schema(views.RAW_BATCHES_NEED).option("topic", ",".join(job.topics))
    frame = frame.option("max_bytes_per_trigger", job.batch_bytes_max)
    frame = frame.option("paths", json.dumps([absolute(path) for path in job.paths]))

    def judge_next(rows: DataFrame, number: int) -> None:
        if checkpoint.judged(number):
            return
        arriving = rows.toArrow()
        caught_up = sum(arriving.column("size_bytes").to_pylist()) < job.batch_bytes_max
        judged = judge(arriving, checkpoint.state_before(number), job.args, caught_up=caught_up)
        on_findings(number, judged.findings)
        checkpoint.store_state(number, judged.state)
        followed.micro_batches += 1
        followed.batches += judged.batches
        followed.records += judged.records
        followed.counts.update(judged.counts)

    writer = frame.load().writeStream.foreachBatch(judge_next).option("checkpointLocation", str(checkpoint.stream))
    if job.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(job.trigger_seconds * 1000)} milliseconds").start()


def line(_number: int, finding: Mapping[str, Any]) -> str:
    """Return a finding of the continuous audit as one line of text for the terminal. The micro-batch's number is ignored."""
    where = f"{finding['topic']}-{finding['partition']}@{'?' if finding['offset'] is None else finding['offset']}"
    evidence = ", ".join(f"{name} {value}" for name, value in finding["evidence"].items() if value not in ("", None))
    text = f"{finding['severity']}  {finding['rule']}: {finding['kind']}  {where}  {finding['file']}:{finding['position']}  {evidence}"
    return printable_name(text)


def json_line(number: int, finding: Mapping[str, Any]) -> str:
    """Return a finding of the continuous audit as one line of JSON, with the micro-batch's number as `micro_batch`."""
    return json.dumps({"micro_batch": number, **finding}, default=str)


def follow_command(job: FollowOptions, json_file: Path | None, tables: tuple[TableFormat, str] | None = None) -> int:
    """Run the continuous audit for a terminal: print findings to standard output and a summary to standard error. `json_file`: append JSON
    lines to this file (`-`: print them instead of text). `tables`: append to a table of this format in this directory. Returns the exit
    code: 1 after a violation, else 0. Raises CannotJudge if Spark does not start, or a log, the checkpoint or the table cannot be used."""
    printed = json_line if json_file == Path("-") else line
    lines = None if json_file is None or json_file == Path("-") else JsonLines(json_file, job.checkpoint)

    table = None if tables is None else FindingsTable(*tables, job.checkpoint)

    def on_findings(number: int, findings: Sequence[Mapping[str, Any]]) -> None:
        if table is not None:
            table.append(number, findings)
        if lines is not None:
            lines.append(number, [json_line(number, finding) for finding in findings])
        for finding in findings:
            print(printed(number, finding), flush=True)

    print(f"Following {', '.join(map(str, job.paths))}; rules {', '.join(CONTINUOUS)}", file=sys.stderr, flush=True)
    with session(0, job.master) as spark, _stopped_by_signals() as stop:
        followed = follow(spark, job, on_findings, stop)
    counts = followed.counts
    print(
        f"Judged {followed.batches:,} batches, {followed.records:,} records in {followed.micro_batches} micro-batches: "
        f"{counts[Severity.VIOLATION]:,} violations, {counts[Severity.WARNING]:,} warnings",
        file=sys.stderr,
    )
    return followed.exit_code


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets. Use it inside a Spark session, because the start of a session installs Spark's own signal
    handler."""
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

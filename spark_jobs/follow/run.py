"""`ottla audit --follow`: Structured Streaming over kafka_log, each micro-batch judged as it comes.

Rules that hold here: executors read and check the bytes, the driver judges the headers. A finding is printed after it is remembered as
found and before Spark notes its micro-batch as done: a stop at any point repeats no byte's judgement, and only a kill between the printing
and the note of it can print a micro-batch's findings a second time (JSON lines carry its number).
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
from ottla.spark_jobs.filesystem import absolute
from ottla.spark_jobs.follow.judge import CONTINUOUS, judge
from ottla.spark_jobs.follow.memory import Memory
from ottla.spark_jobs.session import CannotJudge, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH_BYTES_MAX: Final = 256 << 20
"""Log bytes a micro-batch: their headers fit the driver's memory even where each batch is one small record."""
POLL_SECONDS: Final = 0.2
Tell = Callable[[int, Mapping[str, Any]], None]
"""Called with a micro-batch's number and each of its findings."""


@dataclass(slots=True)
class Followed:
    """What one run read and told. `counts`: findings by severity."""

    micro_batches: int = 0
    batches: int = 0
    records: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def exit_code(self) -> int:
        """1 where this run told of a violation."""
        return 1 if self.counts[Severity.VIOLATION] else 0


@dataclass(frozen=True, slots=True)
class Following:
    """What to follow and how. `once`: stop at the end of what is there; else look again every `trigger_seconds`."""

    paths: Sequence[str | Path]
    checkpoint: Path
    args: Mapping[str, Any]
    topics: Sequence[str] = ()
    trigger_seconds: float = 5.0
    once: bool = False
    master: str | None = None
    batch_bytes_max: int = BATCH_BYTES_MAX


def follow(spark: SparkSession, job: Following, tell: Tell, stop: threading.Event) -> Followed:
    """Judge until `stop` is set (or, once, until all is read). Raises CannotJudge when a log or the checkpoint cannot be read."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 # imports PySpark

    for path in job.paths:
        if str(path).startswith("kafka://"):
            raise CannotJudge(f"{path}: only files are followed")
        if "://" not in str(path) and not Path(path).is_dir():
            raise CannotJudge(f"{path} is no directory")
    followed = Followed()
    query = _start(spark, job, Memory(job.checkpoint.absolute()), followed, tell)
    try:
        while not query.awaitTermination(POLL_SECONDS):  # type: ignore[arg-type]  # PySpark takes fractions of a second
            if stop.is_set():
                break
    except StreamingQueryException as e:
        raise CannotJudge(str(e).split("\n\n", 1)[0]) from e
    finally:
        query.stop()
    return followed


def _start(spark: SparkSession, job: Following, memory: Memory, followed: Followed, tell: Tell) -> StreamingQuery:
    from ottla.spark_jobs.source import KafkaLogSource  # noqa: PLC0415 # imports PySpark

    spark.dataSource.register(KafkaLogSource)
    frame = spark.readStream.format("kafka_log").schema(views.RAW_BATCHES_NEED).option("topic", ",".join(job.topics))
    frame = frame.option("max_bytes_per_trigger", job.batch_bytes_max)
    frame = frame.option("paths", json.dumps([absolute(path) for path in job.paths]))

    def judge_next(rows: DataFrame, number: int) -> None:
        if memory.told(number):
            return
        arriving = rows.toArrow()
        caught_up = sum(arriving.column("size_bytes").to_pylist()) < job.batch_bytes_max
        judged = judge(arriving, memory.before(number), job.args, caught_up=caught_up)
        memory.keep(number, judged.state)
        for finding in judged.findings:
            tell(number, finding)
        memory.note_told(number)
        followed.micro_batches += 1
        followed.batches += judged.batches
        followed.records += judged.records
        followed.counts.update(judged.counts)

    writer = frame.load().writeStream.foreachBatch(judge_next).option("checkpointLocation", str(memory.stream))
    if job.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(job.trigger_seconds * 1000)} milliseconds").start()


def line(_number: int, finding: Mapping[str, Any]) -> str:
    """A finding on one line for a person."""
    where = f"{finding['topic']}-{finding['partition']}@{'?' if finding['offset'] is None else finding['offset']}"
    evidence = ", ".join(f"{name} {value}" for name, value in finding["evidence"].items() if value not in {"", None})
    told = f"{finding['severity']}  {finding['rule']}: {finding['kind']}  {where}  {finding['file']}:{finding['position']}  {evidence}"
    return printable_name(told)


def json_line(number: int, finding: Mapping[str, Any]) -> str:
    """A finding on one line for a program."""
    return json.dumps({"micro_batch": number, **finding}, default=str)


def follow_command(job: Following, json_file: Path | None) -> int:
    """Follow on the terminal: findings on standard output, the summary on standard error. `json_file`: where JSON lines are appended too
    (`-`: they are what is printed). Gives the exit code. Raises CannotJudge."""
    printed = json_line if json_file == Path("-") else line

    def tell(number: int, finding: Mapping[str, Any]) -> None:
        print(printed(number, finding), flush=True)
        if json_file is not None and json_file != Path("-"):
            with json_file.open("a", encoding="utf-8") as out:
                out.write(json_line(number, finding) + "\n")

    print(f"Following {', '.join(map(str, job.paths))}; rules {', '.join(CONTINUOUS)}", file=sys.stderr, flush=True)
    with session(0, job.master) as spark, _stopped_by_signals() as stop:
        followed = follow(spark, job, tell, stop)
    counts = followed.counts
    print(
        f"Judged {followed.batches:,} batches, {followed.records:,} records in {followed.micro_batches} micro-batches: "
        f"{counts[Severity.VIOLATION]:,} violations, {counts[Severity.WARNING]:,} warnings",
        file=sys.stderr,
    )
    return followed.exit_code


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets. Inside a session: starting one sets a handler of Spark's."""
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

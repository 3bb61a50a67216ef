"""The audit: judges Kafka log directories by the rules of `checks`, in one run. `ottla audit DIR`, or `python -m spark_jobs.audit DIR`.

Rules that hold here: all directories are judged in the same queries, each by itself. Counts are exact; only samples are collected.
Neither Spark nor DuckDB is imported before it is needed, so the command line can show its help without them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from spark_jobs import report, views
from spark_jobs.checks import RULES
from spark_jobs.checks.rule import PLACE, Rule, Severity
from spark_jobs.engines import AUTO, EMBEDDED, SPARK, Engine, Row, choose
from spark_jobs.log_files import TRANSACTION_STATE, LogDirectory, find_logs
from spark_jobs.session import CannotJudge, require_spark
from spark_jobs.verdict import DirectoryVerdict, Finding, RuleResult, Verdict

PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""Kafka's default of producer.id.expiration.ms."""
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""Kafka's default of transaction.max.timeout.ms."""
SAMPLES: Final = 10

Progress = Callable[[str, int, int], None]
"""Called with what is being done, steps done, and steps in all."""


class EngineName(StrEnum):
    """What judges: DuckDB in this process, Spark, or whichever suits the size."""

    AUTO = AUTO
    DUCKDB = EMBEDDED
    SPARK = SPARK


@dataclass(frozen=True, slots=True)
class _Job:
    """What one run judges, and how."""

    engine: Engine
    topics: Sequence[str]
    key_field: str | None
    samples: int
    args: dict[str, Any]
    verdicts: dict[str, DirectoryVerdict]
    progress: Callable[[str, int], None]

    @property
    def paths(self) -> list[str]:
        """The directories that hold a log."""
        return [verdict.path for verdict in self.verdicts.values() if verdict.segments]


def audit(
    paths: Sequence[str | Path],
    *,
    topics: Sequence[str] = (),
    key_field: str | None = None,
    retries_absorbed: Sequence[int] = (),
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    samples: int = SAMPLES,
    engine: str = AUTO,
    master: str | None = None,
    progress: Progress = lambda _step, _done, _total: None,
) -> Verdict:
    """Judge the log directories in `paths`. `key_field`: a field of the JSON values (`row`, `order.id`) that names each record once per
    topic. `engine`: `duckdb` (in this process), `spark`, or `auto` (by size; a `master` means Spark).

    `retries_absorbed`: one number a path, shown beside it. Raises `CannotJudge` when the engine cannot run, ValueError on an unknown one;
    what is wrong with a directory is in the verdict.
    """
    started = time.perf_counter()
    found = [find_logs(path, topics) for path in dict.fromkeys(str(Path(path).absolute()) for path in paths)]
    verdicts = {logs.path: _directory_verdict(logs) for logs in found}
    for verdict, absorbed in zip(verdicts.values(), retries_absorbed, strict=False):
        verdict.retries_absorbed = absorbed
    total_bytes = sum(logs.size_bytes for logs in found)
    chosen = choose(engine if engine != AUTO or master is None else SPARK, total_bytes)
    rules = [rule for rule in RULES if key_field is not None or rule.view != "keyed_records"]
    steps = len(rules) + 2
    if any(logs.segments for logs in found):
        progress(f"starting {chosen}", 0, steps)
        args: dict[str, Any] = {
            "expiration_ms": producer_expiration_ms,
            "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        }
        with _start(chosen, total_bytes, master) as running:
            args["json_path"] = running.json_path(key_field or "")
            job = _Job(running, topics, key_field, samples, args, verdicts, lambda step, done: progress(step, done + 2, steps))
            progress("planning", 1, steps)
            _make_views(job)
            _run_rules(job, rules)
    return Verdict(list(verdicts.values()), time.perf_counter() - started, chosen)


def _start(name: str, total_bytes: int, master: str | None) -> AbstractContextManager[Engine]:
    if name == SPARK:
        require_spark()
        from spark_jobs.engines.spark import spark_engine  # noqa: PLC0415 # only where it is the engine

        return spark_engine(total_bytes, master)
    try:
        from spark_jobs.engines.embedded import embedded_engine  # noqa: PLC0415 # only where it is the engine
    except ModuleNotFoundError as e:
        raise CannotJudge(f"The embedded engine needs {e.name}, which is not installed. Run: pip install 'ottla[audit]'") from e
    return embedded_engine()


def _directory_verdict(logs: LogDirectory) -> DirectoryVerdict:
    verdict = DirectoryVerdict(
        logs.path, segments=len(logs.segments), size_bytes=logs.size_bytes, notes=list(logs.notes), problems=list(logs.problems)
    )
    verdict.rules = {rule.name: RuleResult() for rule in RULES}
    verdict.topics = len({segment.topic for segment in logs.segments})
    verdict.partitions = len({(segment.topic, segment.partition) for segment in logs.segments})
    return verdict


def _make_views(job: _Job) -> None:
    engine = job.engine
    engine.read("raw_batches", "batches", job.paths, job.topics, views.RAW_BATCHES_NEED)
    for name, query in (("batches", views.BATCHES), ("producer_batches", views.PRODUCER_BATCHES), ("sequences", views.SEQUENCES)):
        engine.define(name, query, job.args)
    if job.key_field is not None:
        engine.read("records", "records", job.paths, job.topics, views.KEYED_RECORDS_NEED, keep=False)
        engine.define("keyed_records", views.KEYED_RECORDS, job.args, keep=False)


def _make_transaction_views(job: _Job) -> None:
    states = {path: {s.partition for s in find_logs(path, [TRANSACTION_STATE]).segments} for path in job.paths}
    there = [path for path, partitions in states.items() if partitions]
    whole = [(path,) for path in there if states[path] == set(range(len(states[path])))]
    job.engine.table("complete_states", "log_dir string", whole)
    job.engine.read("raw_states", "transactions", there, [TRANSACTION_STATE], views.RAW_STATES_NEED)
    for name, query in (
        ("states", views.STATES),
        ("logs", views.LOGS),
        ("transactions", views.TRANSACTIONS),
        ("open_transactions", views.OPEN_TRANSACTIONS),
    ):
        job.engine.define(name, query, job.args)


def _count(job: _Job) -> bool:
    """Fill in the counts; whether any batch is transactional."""
    transactional = 0
    for row in job.engine.rows(views.COUNTS, job.args):
        verdict = job.verdicts[row["log_dir"]]
        verdict.batches, verdict.records, verdict.producers = row["batches"], row["records"], row["producers"]
        if row["legacy"]:
            verdict.notes.append(f"{row['legacy']} messages in the formats before v2: only their offsets were judged")
        transactional += row["transactional"]
    return transactional > 0


def _run_rules(job: _Job, rules: Sequence[Rule]) -> None:
    by_name = {rule.name: rule for rule in rules}
    for verdict in job.verdicts.values():
        for rule in rules:
            verdict.rules[rule.name].judged = bool(verdict.segments)
    job.progress("reading", 0)
    keyed = [rule for rule in rules if rule.view == "keyed_records"]
    with ThreadPoolExecutor(1, "rules") as pool:
        # Records take longest: their rule begins while the batches are being read. All others are one query, for planning and starting
        # one takes longer than running it.
        early = pool.submit(_judge, job, keyed) if job.engine.concurrent else None
        transactional = _count(job)
        if transactional:
            _make_transaction_views(job)
        others = [rule for rule in rules if rule.view != "keyed_records" and (transactional or not rule.needs_transactions)]
        job.progress("judging", 1)
        found = _judge(job, others)
        job.progress("judging keys", len(others))
        found += _judge(job, keyed) if early is None else early.result()
    for row in found:
        _add(job.verdicts[row["log_dir"]].rules[row["rule"]], by_name[row["rule"]], row, job.samples)


def _judge(job: _Job, rules: Sequence[Rule]) -> list[Row]:
    """The first `samples` findings (at least one, which carries the number) of each rule and severity in each directory, each with the
    exact number of its kind."""
    if not rules:
        return []
    place = ", ".join(PLACE)
    found = " UNION ALL ".join(
        f"""
        SELECT '{rule.name}' AS rule, {place},
            to_json(struct({", ".join(rule.evidence)})) AS evidence
        FROM ({rule.sql})
        """
        for rule in rules
    )
    return job.engine.rows(
        f"""
        SELECT * FROM (
            SELECT *,
                count(*) OVER (PARTITION BY log_dir, rule, severity) AS total,
                row_number() OVER (PARTITION BY log_dir, rule, severity ORDER BY topic, partition, file, position, offset) AS place
            FROM ({found})
        ) WHERE place <= {max(1, job.samples)} ORDER BY log_dir, rule, severity, place
        """,
        job.args,
    )


def _add(result: RuleResult, rule: Rule, row: Row, samples: int) -> None:
    severity = Severity(row["severity"])
    if severity is Severity.VIOLATION:
        result.violations = row["total"]
    elif severity is Severity.WARNING:
        result.warnings = row["total"]
    else:
        result.infos = row["total"]
    if row["place"] > samples:
        return
    place = (row["kind"], row["topic"], row["partition"], row["offset"], row["file"], row["position"])
    result.samples.append(Finding(rule.name, severity, *place, json.loads(row["evidence"])))


def audit_command(  # noqa: PLR0917 # Typer calls it by name; each is an option of the command line
    paths: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Log directories of this broker or of Apache Kafka, judged side by side.")
    ],
    topic: Annotated[list[str] | None, typer.Option(help="Judge only this topic; may be repeated.")] = None,
    key_field: Annotated[
        str | None, typer.Option(help="A field of the JSON values that names each record once, e.g. row or order.id.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the whole verdict to this file; - for standard output.")] = None,
    retries_absorbed: Annotated[
        list[int] | None, typer.Option(help="The broker's own count to show beside each DIR; the log does not hold it.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Show so many findings of each rule.")] = SAMPLES,
    producer_expiration_ms: Annotated[int, typer.Option(help="The broker's producer.id.expiration.ms.")] = PRODUCER_EXPIRATION_MS,
    engine: Annotated[
        EngineName, typer.Option(help="duckdb judges in this process, spark with Spark; auto takes duckdb for small logs.")
    ] = EngineName.AUTO,
    master: Annotated[str | None, typer.Option(help="Spark's master URL; local[*] unless SPARK_MASTER says otherwise.")] = None,
) -> None:
    """Prove from the log files that nothing was written twice, lost or torn.

    Exit code: 0 clean, 1 violations, 2 could not judge.
    """
    try:
        with report.progress() as show:
            verdict = audit(
                paths,
                topics=topic or (),
                key_field=key_field,
                retries_absorbed=retries_absorbed or (),
                producer_expiration_ms=producer_expiration_ms,
                samples=samples,
                engine=engine,
                master=master,
                progress=show,
            )
    except CannotJudge as e:
        print(f"Could not judge: {e}", file=sys.stderr)
        raise typer.Exit(2) from e
    if json_file == Path("-"):
        print(verdict.to_json())
    else:
        report.show(verdict, samples)
        if json_file is not None:
            json_file.write_text(verdict.to_json() + "\n", encoding="utf-8")
    raise typer.Exit(verdict.exit_code)


if __name__ == "__main__":
    typer.run(audit_command)

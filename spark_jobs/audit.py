"""The audit: judges Kafka log directories by the rules of `checks`, in one Spark run. `ottla audit DIR`, or `python -m spark_jobs.audit
DIR`.

Rules that hold here: all directories are judged in the same queries, each by itself. Counts are exact; only samples are collected.
PySpark is imported when it
is needed, so the command line can show its help without it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from spark_jobs import report, views
from spark_jobs.checks import RULES
from spark_jobs.checks.rule import PLACE, Rule, Severity
from spark_jobs.columns import ddl
from spark_jobs.log_files import TRANSACTION_STATE, LogDirectory, find_logs
from spark_jobs.session import CannotJudge, require_spark, session
from spark_jobs.verdict import DirectoryVerdict, Finding, RuleResult, Verdict

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""Kafka's default of producer.id.expiration.ms."""
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""Kafka's default of transaction.max.timeout.ms."""
SAMPLES: Final = 10

Progress = Callable[[str, int, int], None]
"""Called with what is being done, steps done, and steps in all."""


def audit(
    paths: Sequence[str | Path],
    *,
    topics: Sequence[str] = (),
    key_field: str | None = None,
    retries_absorbed: Sequence[int] = (),
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    samples: int = SAMPLES,
    master: str | None = None,
    progress: Progress = lambda _step, _done, _total: None,
) -> Verdict:
    """Judge the log directories in `paths`. `key_field`: a field of the JSON values (`row`, `order.id`) that names each record once per
    topic.

    `retries_absorbed`: one number a path, shown beside it. Raises `CannotJudge` when Spark cannot run; what is wrong with a directory is
    in the verdict.
    """
    started = time.perf_counter()
    found = [find_logs(path, topics) for path in dict.fromkeys(str(Path(path).absolute()) for path in paths)]
    verdicts = {logs.path: _directory_verdict(logs) for logs in found}
    for verdict, absorbed in zip(verdicts.values(), retries_absorbed, strict=False):
        verdict.retries_absorbed = absorbed
    total_bytes = sum(logs.size_bytes for logs in found)
    rules = [rule for rule in RULES if key_field is not None or rule.view != "keyed_records"]
    steps = len(rules) + 2
    if any(logs.segments for logs in found):
        progress("starting Spark", 0, steps)
        with session(total_bytes, master) as spark:
            progress("planning", 1, steps)
            judgeable = [logs.path for logs in found if logs.segments]
            _make_views(spark, judgeable, topics, key_field, producer_expiration_ms)
            try:
                _run_rules(spark, rules, verdicts, samples, lambda step, done: progress(step, done + 2, steps))
            finally:
                spark.catalog.clearCache()
    return Verdict(list(verdicts.values()), time.perf_counter() - started)


def json_path(key_field: str) -> str:
    """The JSONPath of a dotted field name; one that begins with `$` is taken as it is."""
    return key_field if key_field.startswith("$") else "$" + "".join(f"['{part}']" for part in key_field.split("."))


def _directory_verdict(logs: LogDirectory) -> DirectoryVerdict:
    verdict = DirectoryVerdict(
        logs.path, segments=len(logs.segments), size_bytes=logs.size_bytes, notes=list(logs.notes), problems=list(logs.problems)
    )
    verdict.rules = {rule.name: RuleResult() for rule in RULES}
    verdict.topics = len({segment.topic for segment in logs.segments})
    verdict.partitions = len({(segment.topic, segment.partition) for segment in logs.segments})
    return verdict


def _make_views(spark: SparkSession, paths: list[str], topics: Sequence[str], key_field: str | None, expiration_ms: int) -> None:
    from spark_jobs.source import KafkaLogSource  # noqa: PLC0415 # imports PySpark

    spark.dataSource.register(KafkaLogSource)
    reader = spark.read.format("kafka_log").option("topic", ",".join(topics))
    reader.schema(views.RAW_BATCHES_NEED).load(paths).persist().createOrReplaceTempView("raw_batches")
    spark.sql(views.BATCHES).persist().createOrReplaceTempView("batches")
    spark.sql(views.PRODUCER_BATCHES, args={"expiration_ms": expiration_ms}).persist().createOrReplaceTempView("producer_batches")
    spark.sql(views.SEQUENCES).persist().createOrReplaceTempView("sequences")
    if key_field is not None:
        reader.option("level", "records").schema(views.KEYED_RECORDS_NEED).load(paths).createOrReplaceTempView("records")
        spark.sql(views.KEYED_RECORDS, args={"json_path": json_path(key_field)}).createOrReplaceTempView("keyed_records")


def _make_transaction_views(spark: SparkSession, paths: list[str]) -> None:
    states = {path: {s.partition for s in find_logs(path, [TRANSACTION_STATE]).segments} for path in paths}
    there = [path for path, partitions in states.items() if partitions]
    whole = [(path,) for path in there if states[path] == set(range(len(states[path])))]
    spark.createDataFrame(whole, "log_dir string").createOrReplaceTempView("complete_states")
    if there:
        raw = spark.read.format("kafka_log").option("level", "transactions").load(there).persist()
    else:
        raw = spark.createDataFrame([], ddl("transactions"))
    raw.createOrReplaceTempView("raw_states")
    for name, query in (
        ("states", views.STATES),
        ("logs", views.LOGS),
        ("transactions", views.TRANSACTIONS),
        ("open_transactions", views.OPEN_TRANSACTIONS),
    ):
        spark.sql(query).persist().createOrReplaceTempView(name)


def _count(spark: SparkSession, verdicts: dict[str, DirectoryVerdict]) -> bool:
    """Fill in the counts; whether any batch is transactional."""
    transactional = 0
    for row in spark.sql(views.COUNTS).collect():
        verdict = verdicts[row.log_dir]
        verdict.batches, verdict.records, verdict.producers = row.batches, row.records, row.producers
        if row.legacy:
            verdict.notes.append(f"{row.legacy} messages in the formats before v2: only their offsets were judged")
        transactional += row.transactional
    return transactional > 0


def _run_rules(
    spark: SparkSession, rules: Sequence[Rule], verdicts: dict[str, DirectoryVerdict], samples: int, progress: Callable[[str, int], None]
) -> None:
    by_name = {rule.name: rule for rule in rules}
    for verdict in verdicts.values():
        for rule in rules:
            verdict.rules[rule.name].judged = bool(verdict.segments)
    progress("reading", 0)
    with ThreadPoolExecutor(2, "rules") as pool:
        # Records take longest: their rule begins while the batches are being read. All others are one query, for planning and starting
        # one takes longer than running it.
        keyed = pool.submit(_judge, spark, [rule for rule in rules if rule.view == "keyed_records"], samples)
        transactional = _count(spark, verdicts)
        if transactional:
            _make_transaction_views(spark, [verdict.path for verdict in verdicts.values() if verdict.segments])
        others = [rule for rule in rules if rule.view != "keyed_records" and (transactional or not rule.needs_transactions)]
        progress("judging", 1)
        found = _judge(spark, others, samples)
        progress("judging keys", len(others))
        for row in found + keyed.result():
            _add(verdicts[row.log_dir].rules[row.rule], by_name[row.rule], row, samples)


def _judge(spark: SparkSession, rules: Sequence[Rule], samples: int) -> list[Row]:
    """The first `samples` findings (at least one, which carries the number) of each rule and severity in each directory, each with the
    exact number of its kind."""
    if not rules:
        return []
    place = ", ".join(PLACE)
    found = " UNION ALL ".join(
        f"""
        SELECT '{rule.name}' AS rule, {place},
            to_json(struct({", ".join(rule.evidence)}), map('ignoreNullFields', 'false')) AS evidence
        FROM ({rule.sql})
        """
        for rule in rules
    )
    rows: list[Row] = spark.sql(
        f"""
        SELECT * FROM (
            SELECT *,
                count(*) OVER (PARTITION BY log_dir, rule, severity) AS total,
                row_number() OVER (PARTITION BY log_dir, rule, severity ORDER BY topic, partition, file, position, offset) AS place
            FROM ({found})
        ) WHERE place <= {max(1, samples)} ORDER BY log_dir, rule, severity, place
        """,
        args={"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS},
    ).collect()
    return rows


def _add(result: RuleResult, rule: Rule, row: Row, samples: int) -> None:
    severity = Severity(row.severity)
    if severity is Severity.VIOLATION:
        result.violations = row.total
    elif severity is Severity.WARNING:
        result.warnings = row.total
    else:
        result.infos = row.total
    if row.place > samples:
        return
    evidence: dict[str, Any] = json.loads(row.evidence)
    result.samples.append(Finding(rule.name, severity, row.kind, row.topic, row.partition, row.offset, row.file, row.position, evidence))


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
    master: Annotated[str | None, typer.Option(help="Spark's master URL; local[*] unless SPARK_MASTER says otherwise.")] = None,
) -> None:
    """Prove from the log files that nothing was written twice, lost or torn.

    Exit code: 0 clean, 1 violations, 2 could not judge.
    """
    try:
        require_spark()
        with report.progress() as show:
            verdict = audit(
                paths,
                topics=topic or (),
                key_field=key_field,
                retries_absorbed=retries_absorbed or (),
                producer_expiration_ms=producer_expiration_ms,
                samples=samples,
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

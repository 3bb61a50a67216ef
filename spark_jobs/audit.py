"""The audit: judges Kafka log directories by the rules of `checks`, in one run. Start it with `ottla audit DIR`, or submit this file to
Spark.

Invariants:
- All directories are judged in the same queries, each independently of the others.
- Counts are exact; only samples of findings are collected.
- Spark and DuckDB are imported only when they are needed, so the command line can show its help without them.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.protocol.printable import printable
from ottla.spark_jobs import report
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.engines import AUTO, EMBEDDED, MEMORY_MB, SPARK, Engine, Memory, Progress, choose, json_path
from ottla.spark_jobs.follow.options import Checkpoint, Follow, Once, Trigger, check_options
from ottla.spark_jobs.judging import BusinessKey, Job, Judge, run
from ottla.spark_jobs.log_directory import COORDINATOR_TOPICS, POLICY_UNKNOWN, LogDirectory, no_logs
from ottla.spark_jobs.logs import find_logs, one_or_more
from ottla.spark_jobs.options import (
    PARQUET_SAMPLES,
    Deep,
    Directories,
    Estimated,
    Html,
    JsonFile,
    Junit,
    KeyField,
    Parquet,
    Resume,
    RetriesAbsorbed,
)
from ottla.spark_jobs.paths import is_cluster
from ottla.spark_jobs.reports.pictures import Pictures
from ottla.spark_jobs.session import CannotJudge, cluster, require_spark
from ottla.spark_jobs.sinks import FormatOption, TableFormat, TablesOption, require
from ottla.spark_jobs.steps import AuditSpec
from ottla.spark_jobs.verdict import DirectoryVerdict, RuleResult, Verdict
from ottla.spark_jobs.wire.sources import BootstrapServer, CommandConfig, RateLimit, Sources, SpoolDir, Wire, sources, with_server

PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""Kafka's default for producer.id.expiration.ms."""
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""Kafka's default for transaction.max.timeout.ms."""
REPLAY_MS: Final = 600_000
"""Rule `suspected-replay` compares the records of two producers only if they were written within this many milliseconds: five times Kafka's
default for delivery.timeout.ms."""
JAVA_STACK: Final = "\n\tat "
SAMPLES: Final = 10


class EngineName(StrEnum):
    """The engine that judges: DuckDB in this process, Spark, or `auto`, which chooses by the logs' size."""

    AUTO = AUTO
    DUCKDB = EMBEDDED
    SPARK = SPARK


TransactionMaxTimeout = Annotated[
    int,
    typer.Option(min=1, help="The brokers' transaction.max.timeout.ms, for open transactions where __transaction_state is not whole."),
]
EngineOption = Annotated[
    EngineName, typer.Option(help="duckdb judges in this process, spark with Spark; auto takes duckdb for small logs.")
]


def audit(
    paths: str | Path | Sequence[str | Path],
    *,
    topics: str | Sequence[str] = (),
    key_field: str | None = None,
    retries_absorbed: Sequence[int] = (),
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    transaction_max_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    samples: int = SAMPLES,
    deep: bool | None = None,
    replicas: bool = False,
    engine: str = AUTO,
    master: str | None = None,
    memory_mb: int = MEMORY_MB,
    progress: Progress = lambda _step, _done, _total: None,
    pictures: dict[str, Pictures] | None = None,
    wire: Wire | None = None,
    resume: Path | None = None,
) -> Verdict:
    """Judge the log directories in `paths`, and the clusters (`kafka://host:port`), which are read over the network as `wire` says. A
    single path or a single topic may be given without a list.

    `key_field`: the business key, unique in each topic (see `BusinessKey.parse` for its forms). `deep`: also compare the records' contents
    (None: only on the embedded engine). `replicas`: the directories belong to brokers of one cluster, and their replicas are compared.
    `engine`: `duckdb` (in this process; its queries may use `memory_mb` of memory), `spark`, or `auto` (chosen by size; a `master` selects
    Spark).

    `retries_absorbed`: for each path, the number of retries that its broker recognized as duplicates; it is only shown in the report.
    `pictures`: a dictionary that the audit fills with the data for the HTML report's pictures, by directory; None if there is no such
    report. `resume`: the directory where Spark's tasks store their results, so that a restarted run judges only the partitions without a
    result.

    Raises `CannotJudge` when the engine cannot run or a log cannot be read, and ValueError on an unknown engine or an empty `paths`. A
    directory that does not exist or has no logs raises nothing: it is listed in its verdict's `problems`.
    """
    paths, topics = one_or_more(paths), one_or_more(topics)
    if not paths:
        raise ValueError("there is no log directory to judge")  # a glob that matched nothing would otherwise give a clean verdict
    started = time.perf_counter()
    key = None if key_field is None else BusinessKey.parse(key_field)
    with ExitStack() as stack:
        given = stack.enter_context(_sources(paths, topics, wire, replicas, progress))
        listed = [find_logs(path) for path in given.paths]
        found = [logs.of_topics(topics) for logs in listed]
        verdicts = {logs.path: _directory_verdict(logs, given) for logs in found}
        if not any(map(is_cluster, paths)):  # fetching from a cluster already reports missing topics
            _report_missing_topics(found, verdicts, topics)
        for verdict, absorbed in zip(verdicts.values(), retries_absorbed, strict=False):
            verdict.retries_absorbed = absorbed
        total_bytes = sum(logs.size_bytes for logs in found)
        wants_spark = master is not None or resume is not None
        chosen = choose(SPARK if engine == AUTO and wants_spark else engine, total_bytes, spark_runs=spark_runs())
        check_rate(chosen, wire)
        if resume is not None:
            _check_resume(resume, chosen, given.paths)
        if not any(logs.segments for logs in found):
            return Verdict(list(verdicts.values()), time.perf_counter() - started, chosen)
        progress(f"starting {chosen}", 0, 3)
        args = {
            "expiration_ms": producer_expiration_ms,
            "transaction_timeout_ms": transaction_max_timeout_ms,
            "replay_ms": REPLAY_MS,
            "header": "" if key is None else key.name,
            "json_path": "" if key is None else json_path(key.name),
        }
        judge_records = replicas or (chosen == EMBEDDED if deep is None else deep)
        spec = AuditSpec(topics, None if key is None else key.place, judge_records, replicas, samples, args)
        with _reporting_failures(chosen, given.paths), open_judge(chosen, total_bytes, master, memory_mb, progress, resume) as judge:
            run(Job(judge, listed, spec, key, verdicts, pictures))
    return Verdict(list(verdicts.values()), time.perf_counter() - started, chosen)


def open_judge(  # noqa: PLR0917 # called once
    name: str, log_bytes: int, master: str | None, memory_mb: int, progress: Progress, resume: Path | None
) -> AbstractContextManager[Judge]:
    """Open the judge that runs the audit's rules over logs of `log_bytes` bytes: on Spark if `name` is `spark`, otherwise on DuckDB in this
    process. `master` (Spark's master URL) and `resume` (a directory for the tasks' results) are used only with Spark. Raises CannotJudge if
    the engine is missing or cannot start."""
    if name == SPARK:
        return _spark_judge(master, memory_mb, progress, resume)
    with _engine_needed():
        from ottla.spark_jobs.engines.in_process import embedded_judge  # noqa: PLC0415 # DuckDB is imported only if it is the engine
    return embedded_judge(log_bytes, memory_mb, progress)


@contextmanager
def _spark_judge(master: str | None, memory_mb: int, progress: Progress, resume: Path | None) -> Iterator[Judge]:
    with cluster(master) as running:
        with _engine_needed():  # imported here, because `cluster` imports it while the JVM starts
            from ottla.spark_jobs.engines.distributed import SparkJudge  # noqa: PLC0415 # DuckDB is imported only with an engine
        yield SparkJudge(running, memory_mb, progress, resume)


@contextmanager
def _engine_needed() -> Iterator[None]:
    """A context manager for imports of the embedded engine (DuckDB): if a package is missing, raise CannotJudge with the pip command that
    installs it. The Spark engine needs these packages, too, because its tasks judge with DuckDB."""
    try:
        yield
    except ModuleNotFoundError as e:
        raise CannotJudge(f"The embedded engine needs {e.name}, which is not installed. Run: pip install 'ottla[audit]'") from e


@contextmanager
def _sources(
    paths: Sequence[str | Path], topics: Sequence[str], wire: Wire | None, replicas: bool, progress: Progress
) -> Iterator[Sources]:
    """Yield the paths to read. Directories and clusters are fixed at their current ends, so that later batches are not read; with
    `--spool`, clusters are first copied to a local directory. Raises CannotJudge when a cluster cannot be copied, or when `replicas` is
    requested for clusters that are not copied."""
    if replicas and any(map(is_cluster, paths)) and (wire is None or wire.spool is None):
        raise CannotJudge("Over the wire only leaders are read: --replicas compares directories")
    with ExitStack() as stack:
        try:
            given = stack.enter_context(sources(paths, topics, wire, progress))
        except (OSError, ValueError) as e:
            raise CannotJudge(str(e)) from e
        yield given


@contextmanager
def _reporting_failures(engine: str, paths: Sequence[str]) -> Iterator[None]:
    """Convert read errors and out-of-memory errors that are raised within the `with` block to CannotJudge. The message of CannotJudge is
    the cause, without the engine's details and stack trace."""
    failures: tuple[type[Exception], ...] = (OSError,)
    short: tuple[type[Exception], ...] = (MemoryError,)
    if engine == SPARK:
        from py4j.protocol import Py4JError  # noqa: PLC0415 # only if Spark is the engine
        from pyspark.errors import PySparkException  # noqa: PLC0415 # only if Spark is the engine

        failures += (PySparkException, Py4JError)
    else:
        from duckdb import IOException, OutOfMemoryException  # noqa: PLC0415 # only if DuckDB is the engine

        failures, short = (*failures, IOException), (*short, OutOfMemoryException)
    try:
        yield
    except short as e:
        raise CannotJudge(f"More memory is needed than --memory-mb allows, or room in TMPDIR: {e}") from e
    except failures as e:
        what = "cluster" if any(map(is_cluster, paths)) else "logs"
        raise CannotJudge(f"The {what} cannot be read: {str(e).partition('. Detail:')[0].partition(JAVA_STACK)[0]}") from e


def check_rate(engine: str, wire: Wire | None) -> None:
    """Raise CannotJudge if a limit of bytes per second is set in `wire`, and Spark's tasks would fetch from the cluster: they fetch
    independently of each other, so they cannot keep a common limit."""
    if wire is not None and engine == SPARK and wire.bytes_per_second and wire.spool is None:
        raise CannotJudge("Spark fetches in many tasks at once: a limit of bytes a second needs --spool, or --engine duckdb")


def _check_resume(resume: Path, engine: str, paths: Sequence[str]) -> None:
    """Create the directory `resume`. Raises CannotJudge if results cannot be stored or reused: if `resume` is a URL, the engine is DuckDB,
    or a path is a cluster without --spool."""
    if engine != SPARK:
        raise CannotJudge("--resume needs --engine spark: duckdb judges all partitions in the same queries")
    if any(map(is_cluster, paths)):
        raise CannotJudge("--resume compares files, and over the wire there are none: add --spool DIR")
    if re.match(r"\w+:/", str(resume)):
        raise CannotJudge(f"--resume {resume}: a URL is no directory; name one that the driver and the executors share")
    try:
        resume.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise CannotJudge(f"--resume {resume}: {e.strerror}") from e


def spark_runs() -> bool:
    """Return whether PySpark and Java are installed."""
    try:
        require_spark()
    except CannotJudge:
        return False
    return True


def start(name: str, total_bytes: int, master: str | None, memory_mb: int = MEMORY_MB) -> AbstractContextManager[Engine]:
    """Open an engine for SQL queries over logs of `total_bytes` bytes: Spark if `name` is `spark`, otherwise DuckDB in this process. It
    runs queries, but not the audit's rules (see `open_judge`). Raises CannotJudge if the engine is missing or cannot start."""
    if name == SPARK:
        require_spark()
        from ottla.spark_jobs.engines.spark import spark_engine  # noqa: PLC0415 # Spark is imported only if it is the engine

        return spark_engine(total_bytes, master)
    with _engine_needed():
        from ottla.spark_jobs.engines.embedded import embedded_engine  # noqa: PLC0415 # DuckDB is imported only if it is the engine
    return embedded_engine(total_bytes, memory_mb)


def _report_missing_topics(found: Sequence[LogDirectory], verdicts: Mapping[str, DirectoryVerdict], topics: Sequence[str]) -> None:
    """Add a problem to the verdicts for each requested topic that is in none of the directories: a misspelt topic must not give a clean
    verdict. A topic that is in only some of the directories is no problem."""
    there = COORDINATOR_TOPICS.union(segment.topic for logs in found for segment in logs.segments)
    for logs in found:
        if logs.segments:
            verdicts[logs.path].problems += [no_logs(logs.path, [topic]) for topic in topics if topic not in there]


def _directory_verdict(logs: LogDirectory, given: Sources) -> DirectoryVerdict:
    verdict = DirectoryVerdict(logs.path, segments=len(logs.segments), size_bytes=logs.size_bytes)
    verdict.notes = logs.notes + given.notes.get(logs.path, [])
    verdict.problems = logs.problems + given.problems.get(logs.path, [])
    verdict.problems += [note for note in verdict.notes if note.endswith(POLICY_UNKNOWN)]
    verdict.rules = {rule.name: RuleResult() for rule in RULES}
    verdict.topics = len({segment.topic for segment in logs.segments})
    verdict.partitions = len({(segment.topic, segment.partition) for segment in logs.segments})
    return verdict


def audit_command(  # noqa: PLR0917 # Typer passes the options by name; each parameter is an option of the command
    context: typer.Context,
    paths: Directories = None,
    topic: Annotated[list[str] | None, typer.Option(help="Judge only this topic; may be repeated.")] = None,
    key_field: KeyField = None,
    json_file: JsonFile = None,
    retries_absorbed: RetriesAbsorbed = None,
    samples: Annotated[int, typer.Option(min=0, help="Show so many findings of each rule.")] = SAMPLES,
    producer_expiration_ms: Annotated[int, typer.Option(help="The broker's producer.id.expiration.ms.")] = PRODUCER_EXPIRATION_MS,
    transaction_max_timeout_ms: TransactionMaxTimeout = TRANSACTION_TIMEOUT_MS,
    engine: EngineOption = EngineName.AUTO,
    deep: Deep = None,
    replicas: Annotated[bool, typer.Option(help="The DIRs are of one cluster's brokers: compare their replicas byte by byte.")] = False,
    master: Annotated[str | None, typer.Option(help="Spark's master URL; local[*] unless SPARK_MASTER says otherwise.")] = None,
    memory_mb: Memory = MEMORY_MB,
    html: Html = None,
    junit: Junit = None,
    parquet: Parquet = None,
    tables: TablesOption = None,
    table_format: FormatOption = TableFormat.PARQUET,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    max_bytes_per_second: RateLimit = 0,
    spool: SpoolDir = None,
    resume: Resume = None,
    estimate: Estimated = False,
    follow: Follow = False,
    checkpoint: Checkpoint = None,
    trigger: Trigger = 5.0,
    once: Once = False,
) -> None:
    """Prove from the log files that nothing was written twice, lost or torn.

    For example: ottla audit data --key-field order.id --html report.html. Exit code: 0 clean, 1 violations, 2 could not judge.
    """
    pictures: dict[str, Pictures] | None = None if html is None else {}
    read = with_server(paths, bootstrap_server)
    try:
        check_options(context, follow=follow)
        _check_places(*(each for each in (html, junit, parquet, json_file) if each is not None))
        findings_table = _findings_table(context, tables, table_format)
        if follow:
            args = {"expiration_ms": producer_expiration_ms, "transaction_timeout_ms": transaction_max_timeout_ms}
            raise typer.Exit(_follow(read, topic, args, master, checkpoint, trigger, once, json_file, findings_table))
        if estimate:
            raise typer.Exit(_estimate(read, topic or (), key_field, replicas or bool(deep), replicas, master))
        with report.progress() as show:
            verdict = audit(
                read,
                topics=topic or (),
                key_field=key_field,
                retries_absorbed=retries_absorbed or (),
                producer_expiration_ms=producer_expiration_ms,
                transaction_max_timeout_ms=transaction_max_timeout_ms,
                samples=samples if parquet is None and findings_table is None else max(samples, PARQUET_SAMPLES),
                engine=engine,
                deep=deep,
                replicas=replicas,
                master=master,
                memory_mb=memory_mb,
                progress=show,
                pictures=pictures,
                wire=Wire(command_config, max_bytes_per_second, spool),
                resume=None if resume is None else resume.absolute(),
            )
    except CannotJudge as e:
        print(printable(f"Could not judge: {e}"), file=sys.stderr)
        raise typer.Exit(2) from e
    _report(verdict, samples, json_file, partial(_write_reports, verdict, pictures, html, junit, parquet, findings_table))
    raise typer.Exit(verdict.exit_code)


def _estimate(  # noqa: PLR0917 # the parameters are the command's options
    paths: Sequence[str], topics: Sequence[str], key_field: str | None, deep: bool, replicas: bool, master: str | None
) -> int:
    if any(map(is_cluster, paths)):
        raise CannotJudge("--estimate counts files, and over the wire there are none")
    key = None if key_field is None else BusinessKey.parse(key_field).place
    try:
        from ottla.spark_jobs.estimate import estimate_command  # noqa: PLC0415 # DuckDB, which tasks need, is optional
    except ModuleNotFoundError as e:
        raise CannotJudge(f"The audit needs {e.name}, which is not installed. Run: pip install 'ottla[audit]'") from e
    return estimate_command(paths, AuditSpec(topics, key, deep, replicas, SAMPLES, {}), master)


def _report(verdict: Verdict, samples: int, json_file: Path | None, write_reports: Callable[[], None]) -> None:
    """Show the verdict, with at most `samples` findings of each rule, and write `json_file` and the reports. Raises typer.Exit(2) if a
    requested file cannot be written, whatever the verdict is."""
    try:
        _show(verdict, samples, json_file)
        write_reports()
    except (CannotJudge, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        raise typer.Exit(2) from e


def _findings_table(context: typer.Context, tables: str | None, table_format: TableFormat) -> tuple[TableFormat, str] | None:
    """Return (format, directory) of the table for the findings, None without --tables. Raises CannotJudge if the table cannot be written,
    or if --format is given without --tables."""
    if tables is not None:
        require(table_format, tables)
        return table_format, tables
    if getattr(context.get_parameter_source("table_format"), "name", "") == "COMMANDLINE":
        raise CannotJudge("--format is for --tables DIR")
    return None


def _check_places(*files: Path) -> None:
    """Raise CannotJudge unless each output file is in an existing directory and is not itself a directory. This is checked before the
    audit, which may take long."""
    for file in files:
        if not file.parent.is_dir():
            raise CannotJudge(f"there is no directory {file.parent} for {file.name}")
        if file.is_dir():
            raise CannotJudge(f"{file} is a directory: name a file")


def _follow(  # noqa: PLR0917 # the parameters are the command's options
    paths: Sequence[str],
    topics: Sequence[str] | None,
    args: Mapping[str, int],
    master: str | None,
    checkpoint: Path | None,
    trigger: float,
    once: bool,
    json_file: Path | None,
    findings_table: tuple[TableFormat, str] | None,
) -> int:
    if checkpoint is None:
        raise CannotJudge("--follow needs --checkpoint DIR, where it keeps how far it is")
    require_spark()
    from ottla.spark_jobs.follow.run import FollowOptions, follow_command  # noqa: PLC0415 # only with --follow

    return follow_command(FollowOptions(paths, checkpoint, args, topics or (), trigger, once, master), json_file, findings_table)


def _show(verdict: Verdict, samples: int, json_file: Path | None) -> None:
    if json_file == Path("-"):
        print(verdict.to_json())
        return
    report.show(verdict, samples)
    if json_file is not None:
        json_file.write_text(verdict.to_json() + "\n", encoding="utf-8")


def _write_reports(  # noqa: PLR0917 # the parameters are the command's options
    verdict: Verdict,
    pictures: dict[str, Pictures] | None,
    html: Path | None,
    junit: Path | None,
    parquet: Path | None,
    findings_table: tuple[TableFormat, str] | None,
) -> None:
    if pictures is not None and html is not None:
        from ottla.spark_jobs.reports import html as page  # noqa: PLC0415 # only with --html

        page.write(verdict, pictures, html)
    if junit is not None:
        from ottla.spark_jobs.reports import junit as xml  # noqa: PLC0415 # only with --junit

        xml.write(verdict, junit)
    if parquet is not None:
        from ottla.spark_jobs.reports import parquet as table  # noqa: PLC0415 # only with --parquet

        table.write(verdict, parquet)
    if findings_table is not None:
        from ottla.spark_jobs.reports import parquet as table  # noqa: PLC0415 # only with --tables

        table.write_table(verdict, *findings_table)


if __name__ == "__main__":
    typer.run(audit_command)

"""`ottla dedup DIR... --to OUT`: writes the committed records of a log to Parquet, each of them once.

Invariants:
- A record is written if a read_committed consumer can receive it, and only its first copy: the first of each (producer id, epoch,
  sequence), with the sequence continued past its wrap; or, with a business key, the first of each key in its topic.
- Every record is counted: records read = written + aborted + open + duplicates. Unreadable batches are counted as batches.
- The log is only read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla.protocol.printable import printable
from ottla.spark_jobs import views
from ottla.spark_jobs.audit import PRODUCER_EXPIRATION_MS, EngineName, check_rate, spark_runs, start
from ottla.spark_jobs.engines import AUTO, MEMORY_MB, SPARK, Engine, Memory, choose
from ottla.spark_jobs.judging import BusinessKey
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.report import progress
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.wire.sources import BootstrapServer, CommandConfig, RateLimit, SpoolDir, Wire, sources, with_server

RECORDS_NEED: Final = (
    "log_dir string, topic string, partition int, file string, position bigint, base_offset bigint, offset bigint, timestamp bigint, "
    "key binary, value binary, headers array<struct<key:string,value:binary>>, control boolean, producer_id bigint, producer_epoch int, "
    "sequence int"
)
OUTCOMES: Final = """
    SELECT log_dir, file, position, outcome FROM (
        SELECT log_dir, file, position, control,
            first_value(marker, true) OVER (PARTITION BY log_dir, topic, partition, producer_id ORDER BY segment, position
                                            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS outcome
        FROM batches WHERE transactional
    ) WHERE NOT control
"""
"""The outcome of the transaction of each transactional batch; null while it is open."""

JUDGED: Final = """
    SELECT *,
        CASE WHEN in_transaction AND outcome = 'abort' THEN 'aborted'
             WHEN in_transaction AND outcome IS NULL THEN 'open'
             WHEN NOT is_first THEN 'duplicate'
             ELSE 'written' END AS fate
    FROM (
        SELECT *,
            once IS NULL OR row_number() OVER (
                PARTITION BY {scope}, once, in_transaction AND coalesce(outcome, 'open') <> 'commit'
                ORDER BY timestamp_first, log_dir, partition, offset) = 1 AS is_first
        FROM (
            SELECT r.log_dir, r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, r.headers, r.producer_id, r.producer_epoch,
                r.sequence, o.file IS NOT NULL AS in_transaction, o.outcome, {once} AS once, {first} AS timestamp_first
            FROM records r
            LEFT JOIN outcomes o ON o.log_dir = r.log_dir AND o.file = r.file AND o.position = r.position
            LEFT JOIN sequences s ON s.log_dir = r.log_dir AND s.file = r.file AND s.position = r.position
            WHERE NOT r.control AND NOT startswith(r.topic, '__')
        )
    )
"""
BY_SEQUENCE: Final = {
    "scope": "log_dir, topic, partition",
    "once": """CASE WHEN s.sequence IS NOT NULL THEN concat(CAST(r.producer_id AS STRING), ':', CAST(r.producer_epoch AS STRING), ':',
        CAST(s.session AS STRING), ':', CAST(s.sequence + r.offset - r.base_offset AS STRING)) END""",
    "first": "0",
}
"""The lowest offset is the first copy: the copies are in one partition, where offsets rise in the order of appending."""
BY_KEY: Final = {"scope": "topic", "first": "r.timestamp"}
"""The copy with the earliest timestamp is the first: the records of a key may be in several partitions, where offsets say nothing about
their order."""

COUNTS: Final = "SELECT topic, fate, count(*) AS records, count(once) AS identified FROM judged GROUP BY topic, fate"
UNREADABLE: Final = """
    SELECT topic, count(*) AS batches FROM raw_batches
    WHERE (error IS NOT NULL AND NOT torn OR NOT crc_ok OR magic < 2 OR records_fault IS NOT NULL) AND NOT startswith(topic, '__')
    GROUP BY topic
"""
WRITTEN: Final = """
    SELECT topic, partition, offset, timestamp, key, value, headers, producer_id, producer_epoch, sequence
    FROM judged WHERE fate = 'written' ORDER BY topic, partition, offset
"""


@dataclass(slots=True)
class TopicCount:
    """The records of one topic by their fate. `unreadable`: damaged stretches and batches, and messages in the formats before v2, whose
    records were not read."""

    topic: str
    read: int = 0
    written: int = 0
    aborted: int = 0
    open: int = 0
    duplicate: int = 0
    unreadable: int = 0


def dedup(
    paths: Sequence[str | Path],
    to: Path,
    *,
    topics: Sequence[str] = (),
    key_field: str | None = None,
    engine: str = AUTO,
    master: str | None = None,
    memory_mb: int = MEMORY_MB,
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    wire: Wire | None = None,
) -> list[TopicCount]:
    """Write the records of the log directories once, as Parquet files in the new directory `to`, and return the counts by topic.

    `key_field`, `wire`: see `audit.audit`. Raises FileExistsError if `to` exists, FileNotFoundError if there is no log or a directory has a
    problem, and CannotJudge if the engine or a cluster fails.
    """
    if to.exists():
        raise FileExistsError(f"{to} already exists: name a new directory")
    with sources(paths, topics, wire) as given:
        found = [find_logs(path, topics) for path in given.paths]
        for logs in found:
            if logs.problems or not logs.segments:
                raise FileNotFoundError("; ".join(logs.problems) or f"{logs.path} holds no log{' of these topics' if topics else ''}")
        size = sum(logs.size_bytes for logs in found)
        chosen = choose(engine if engine != AUTO or master is None else SPARK, size, spark_runs=spark_runs())
        check_rate(chosen, wire)
        with start(chosen, size, master, memory_mb) as running:
            _judge(running, given.paths, topics, key_field, producer_expiration_ms)
            counts = _count(running, key_field)
            running.write(WRITTEN, {}, to)
    return counts


def _judge(engine: Engine, paths: Sequence[str], topics: Sequence[str], key_field: str | None, expiration_ms: int) -> None:
    engine.read("raw_batches", "batches", paths, topics, views.RAW_BATCHES_NEED)
    args: dict[str, Any] = {"expiration_ms": expiration_ms}
    for name, query in (("batches", views.batches()), ("producer_batches", views.producer_batches()), ("sequences", views.sequences())):
        engine.define(name, query, args)
    engine.define("outcomes", OUTCOMES, args)
    engine.read("records", "records", paths, topics, RECORDS_NEED)
    if key_field is None:
        engine.define("judged", JUDGED.format(**BY_SEQUENCE), args)
        return
    key = BusinessKey.parse(key_field)
    args |= {"json_path": engine.json_path(key.name), "header": key.name}
    engine.define("judged", JUDGED.format(once=views.KEYS[key.place], **BY_KEY), args)


def _count(engine: Engine, key_field: str | None) -> list[TopicCount]:
    """Return the counts by topic. Raises CannotJudge if no record has the business key: a misspelt key would keep every duplicate."""
    counts: dict[str, TopicCount] = {}
    rows = engine.rows(COUNTS, {})
    if key_field is not None and rows and not any(row["identified"] for row in rows):
        raise CannotJudge(f"no record has the key --key-field {key_field}: nothing was written")
    for row in rows:
        count = counts.setdefault(row["topic"], TopicCount(row["topic"]))
        setattr(count, row["fate"], row["records"])
        count.read += row["records"]
    for row in engine.rows(UNREADABLE, {}):
        counts.setdefault(row["topic"], TopicCount(row["topic"])).unreadable = row["batches"]
    return [counts[topic] for topic in sorted(counts)]


def dedup_command(  # noqa: PLR0917 # Typer passes the options by name; each parameter is an option of the command
    to: Annotated[Path, typer.Option(help="The new directory for the Parquet files.")],
    paths: Annotated[list[str] | None, typer.Argument(metavar="DIR...", help="Log directories of this broker or of Apache Kafka.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; may be repeated.")] = None,
    key_field: Annotated[
        str | None,
        typer.Option(
            help="Write the first of each business key: a field of the JSON value (order.id), header:NAME, or key: (the record's key)."
        ),
    ] = None,
    engine: Annotated[
        EngineName, typer.Option(help="duckdb works in this process, spark with Spark; auto takes duckdb for small logs.")
    ] = EngineName.AUTO,
    master: Annotated[str | None, typer.Option(help="Spark's master URL.")] = None,
    memory_mb: Memory = MEMORY_MB,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    max_bytes_per_second: RateLimit = 0,
    spool: SpoolDir = None,
) -> None:
    """Write the committed records of a log to Parquet, each once: the first of each producer's sequence or of each business key.

    For example: ottla dedup data --to orders-once --topic orders. Exit code: 0 written, 2 could not, or not all of it.
    """
    try:
        with progress() as show:
            show("reading and writing", 0, 1)
            read = with_server(paths, bootstrap_server)
            wire = Wire(command_config, max_bytes_per_second, spool)
            counts = dedup(read, to, topics=topic or (), key_field=key_field, engine=engine, master=master, memory_mb=memory_mb, wire=wire)
    except (CannotJudge, OSError, ValueError) as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        raise typer.Exit(2) from error
    if as_json:
        print(json.dumps([asdict(count) for count in counts], indent=2))
    else:
        Console().print(_table(counts, to))
    if unreadable := sum(count.unreadable for count in counts):
        print(f"error: {unreadable:,} batches cannot be read and are not in {to}: `ottla audit` shows them", file=sys.stderr)
        raise typer.Exit(2)


def _table(counts: Sequence[TopicCount], to: Path) -> Table:
    table = Table(title=Text(f"Written to {to}"), title_justify="left", header_style="bold")
    for heading in ("Topic", "Read", "Written", "Aborted", "Open", "Duplicates", "Unreadable batches"):
        table.add_column(heading, justify="left" if heading == "Topic" else "right")
    for count in counts:
        numbers = (count.read, count.written, count.aborted, count.open, count.duplicate, count.unreadable)
        table.add_row(count.topic, *(f"{number:,}" for number in numbers))
    return table


if __name__ == "__main__":
    typer.run(dedup_command)

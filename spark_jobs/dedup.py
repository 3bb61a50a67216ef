"""`ottla dedup DIR... --to TABLES`: writes the committed records of a log to a table, each of them once, and tables of its producers and
transactions.

Invariants:
- A record is written if a read_committed consumer can receive it, and only its first copy: the first of each (producer id, epoch,
  sequence), with the sequence continued past its wrap; or, with a business key, the first of each key in its topic.
- Every record is counted: records read = written + aborted + open + duplicates. Unreadable batches are counted as batches.
- The table `records` stores the offset up to which each partition was written, and a run appends the records from there on. This offset is
  at most the last stable offset. All transactions below that have ended, so a later run would not treat these records differently.
- The log is never changed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla.protocol.printable import printable
from ottla.spark_jobs import views
from ottla.spark_jobs.audit import PRODUCER_EXPIRATION_MS, EngineName, check_rate, spark_runs, start
from ottla.spark_jobs.engines import AUTO, MEMORY_MB, SPARK, Engine, Memory, Row, choose
from ottla.spark_jobs.judging import BusinessKey
from ottla.spark_jobs.log_directory import TRANSACTION_STATE, LogDirectory
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.report import progress
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.sinks import FormatOption, Sink, TableFormat, open_sink, require
from ottla.spark_jobs.wire.sources import BootstrapServer, CommandConfig, RateLimit, SpoolDir, Wire, sources, with_server

if TYPE_CHECKING:
    from ottla.spark_jobs.sinks.files import DataFile
    from ottla.spark_jobs.sinks.schemas import TableSpec

RECORDS_NEED: Final = (
    "log_dir string, topic string, partition int, file string, position bigint, base_offset bigint, offset bigint, timestamp bigint, "
    "key binary, value binary, headers array<struct<key:string,value:binary>>, control boolean, producer_id bigint, producer_epoch int, "
    "sequence int"
)
OUTCOMES: Final = """
    SELECT log_dir, topic, partition, file, position, base_offset, outcome FROM (
        SELECT log_dir, topic, partition, file, position, base_offset, control,
            first_value(marker, true) OVER (PARTITION BY log_dir, topic, partition, producer_id ORDER BY segment, position
                                            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS outcome
        FROM batches WHERE transactional
    ) WHERE NOT control
"""
"""SQL of a view with one row per transactional data batch: the outcome of its transaction (`commit` or `abort`), null while the transaction
is open."""
STABLE: Final = """
    SELECT log_dir, topic, partition, min(base_offset) AS last_stable_offset FROM outcomes WHERE outcome IS NULL
    GROUP BY log_dir, topic, partition
"""
"""SQL of a view with the last stable offset of each partition that has an open transaction. A read_committed consumer gets no record from
this offset on."""

JUDGED: Final = """
    SELECT *,
        CASE WHEN is_open THEN 'open'
             WHEN in_transaction AND outcome = 'abort' THEN 'aborted'
             WHEN NOT is_first THEN 'duplicate'
             ELSE 'written' END AS fate
    FROM (
        SELECT *,
            once IS NULL OR row_number() OVER (
                PARTITION BY {scope}, once, is_open OR in_transaction AND outcome = 'abort'
                ORDER BY timestamp_first, log_dir, partition, offset) = 1 AS is_first
        FROM (
            SELECT r.log_dir, r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, r.headers, r.producer_id, r.producer_epoch,
                r.sequence, o.file IS NOT NULL AS in_transaction, o.outcome,
                coalesce(r.offset >= t.last_stable_offset, false) AS is_open, {once} AS once, {first} AS timestamp_first
            FROM records r
            LEFT JOIN outcomes o ON o.log_dir = r.log_dir AND o.file = r.file AND o.position = r.position
            LEFT JOIN stable t ON t.log_dir = r.log_dir AND t.topic = r.topic AND t.partition = r.partition
            LEFT JOIN sequences s ON s.log_dir = r.log_dir AND s.file = r.file AND s.position = r.position
            LEFT JOIN late_retries e ON e.log_dir = r.log_dir AND e.file = r.file AND e.position = r.position
            WHERE NOT r.control AND NOT startswith(r.topic, '__')
        )
    )
"""
BY_SEQUENCE: Final = {
    "scope": "log_dir, topic, partition",
    "once": """CASE WHEN s.sequence IS NOT NULL THEN concat(CAST(r.producer_id AS STRING), ':', CAST(r.producer_epoch AS STRING), ':',
        CAST(coalesce(e.first_session, s.session) AS STRING), ':',
        CAST(coalesce(e.first_sequence, s.sequence) + r.offset - r.base_offset AS STRING)) END""",
    "first": "0",
}
"""SQL to insert into the query JUDGED if copies are recognized by producer id, epoch and sequence. The copy with the lowest offset is the
first one: all copies are in one partition, where offsets rise in the order of appending."""
BY_KEY: Final = {"scope": "topic", "first": "r.timestamp"}
"""SQL to insert into the query JUDGED if copies are recognized by business key. The copy with the earliest timestamp is the first one: the
records of a key may be in several partitions, so their offsets say nothing about their order."""

COUNTS: Final = "SELECT topic, fate, count(*) AS records, count(once) AS identified FROM judged GROUP BY topic, fate"
UNREADABLE: Final = """
    SELECT topic, count(*) AS batches FROM raw_batches
    WHERE (error IS NOT NULL AND NOT torn OR NOT crc_ok OR magic < 2 OR records_fault IS NOT NULL) AND NOT startswith(topic, '__')
    GROUP BY topic
"""
ENDS: Final = """
    SELECT b.topic, b.partition, count(DISTINCT b.log_dir) AS copies, max(b.last_offset) + 1 AS end_offset,
        min(t.last_stable_offset) AS last_stable_offset
    FROM batches b LEFT JOIN stable t ON t.log_dir = b.log_dir AND t.topic = b.topic AND t.partition = b.partition
    WHERE NOT startswith(b.topic, '__') GROUP BY b.topic, b.partition
"""
_COLUMNS: Final = "j.topic, j.partition, j.offset, j.timestamp, j.key, j.value, j.headers, j.producer_id, j.producer_epoch, j.sequence"
WRITTEN: Final = f"""
    SELECT {_COLUMNS} FROM judged j JOIN starts s ON s.topic = j.topic AND s.partition = j.partition
    WHERE j.fate = 'written' AND j.offset >= s.start_offset ORDER BY j.topic, j.partition, j.offset
"""
PRODUCER_ROWS: Final = """
    SELECT log_dir, topic, partition, producer_id, producer_epoch, bool_or(transactional) AS transactional, count(*) AS batches,
        sum(record_count) AS records, min(base_offset) AS first_offset, max(last_offset) AS last_offset,
        min(max_timestamp) AS first_timestamp, max(max_timestamp) AS last_timestamp
    FROM producer_batches WHERE NOT control GROUP BY log_dir, topic, partition, producer_id, producer_epoch
    ORDER BY topic, partition, first_offset
"""
TRANSACTION_ROWS: Final = """
    SELECT t.log_dir, t.topic, t.partition, t.producer_id, coalesce(t.data_epoch, t.marker_epoch) AS producer_epoch, i.transactional_id,
        t.outcome, t.data_batches AS batches, t.data_records AS records, t.first_offset, t.marker_offset, t.first_timestamp,
        t.marker_timestamp
    FROM transactions t LEFT JOIN (
        SELECT log_dir, producer_id, max(transactional_id) AS transactional_id FROM raw_states
        WHERE producer_id IS NOT NULL GROUP BY log_dir, producer_id
    ) i ON i.log_dir = t.log_dir AND i.producer_id = t.producer_id
    ORDER BY t.topic, t.first_timestamp, t.partition, t.first_offset
"""


@dataclass(slots=True)
class TopicCount:
    """How many records of one topic were written or left out, by reason. `open`: records at or after the first record of an open
    transaction in the partition, which read_committed consumers do not receive yet. `added`: how many of the `written` records this run
    added to the table. `unreadable`: the number of damaged batches and of messages in the formats before v2, whose records were not read.
    `deleted`: the number of offsets that were deleted from the log after the last run, before this run could write their records.
    """

    topic: str
    read: int = 0
    written: int = 0
    aborted: int = 0
    open: int = 0
    duplicate: int = 0
    unreadable: int = 0
    added: int = 0
    deleted: int = 0


def dedup(
    paths: Sequence[str | Path],
    to: str | Path,
    *,
    table_format: TableFormat = TableFormat.PARQUET,
    topics: Sequence[str] = (),
    key_field: str | None = None,
    engine: str = AUTO,
    master: str | None = None,
    memory_mb: int = MEMORY_MB,
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    wire: Wire | None = None,
) -> list[TopicCount]:
    """Write each committed record of the log directories once, to tables in the directory `to`, and return the counts by topic.

    Without `key_field`, records that the table `records` does not have yet are appended to it. With `key_field` (a business key, such as a
    field of the JSON value), the topics' rows in the table `unique_records` are replaced. The topics' rows in the tables `producers` and
    `transactions` are always replaced. `wire`: how clusters are read over the network. Raises FileNotFoundError if there is no log or a
    directory has a problem, and CannotJudge if the engine, a cluster or a table fails.
    """
    require(table_format, to)
    with sources(paths, topics, wire) as given:
        found = [find_logs(path, topics) for path in given.paths]
        for logs in found:
            problems = [each for each in logs.problems if not each.startswith("__")] + given.problems.get(logs.path, [])
            if problems or not logs.segments:
                raise FileNotFoundError("; ".join(problems) or f"{logs.path} holds no log{' of these topics' if topics else ''}")
        size = sum(logs.size_bytes for logs in found)
        chosen = choose(engine if engine != AUTO or master is None else SPARK, size, spark_runs=spark_runs())
        check_rate(chosen, wire)
        with start(chosen, size, master, memory_mb) as running:
            _judge(running, given.paths, topics, key_field, producer_expiration_ms)
            counts = _count(running, key_field)
            _write(running, partial(open_sink, table_format, to), counts, _log_starts(found), by_key=key_field is not None)
    return counts


def _write(
    engine: Engine,
    opened: Callable[[TableSpec], AbstractContextManager[Sink]],
    counts: Sequence[TopicCount],
    log_starts: Mapping[tuple[str, int], int],
    *,
    by_key: bool,
) -> None:
    """Write the tables of `ottla dedup`: records, producers and transactions; add the numbers of written and of deleted records to
    `counts`. `opened`: a function that opens a table for writing. `log_starts`: the first offset of each partition that was read. `by_key`:
    duplicates are recognized by business key, so the table `unique_records` is written instead of `records`."""
    from ottla.spark_jobs.sinks import schemas  # noqa: PLC0415 # PyArrow is optional

    with opened(schemas.UNIQUE_RECORDS if by_key else schemas.RECORDS) as records:
        ends = engine.rows(ENDS, {})
        begins = {(row["topic"], row["partition"]): 0 if by_key else _start(records, row) for row in ends}
        engine.table("starts", "topic string, partition int, start_offset bigint", [(*place, start) for place, start in begins.items()])
        files = _staged(engine, records, WRITTEN)
        if by_key:
            records.commit(files, {}, {count.topic for count in counts})
        elif files:
            records.commit(files, {_key(row): end for row in ends if (end := _end(row)) > begins[row["topic"], row["partition"]]})
    for count in counts:
        count.added = sum(each.rows for each in files if each.partition[schemas.TOPIC] == count.topic)
        passed = [log_starts[place] - begin for place, begin in begins.items() if place[0] == count.topic and begin > 0]
        count.deleted = sum(max(0, offsets) for offsets in passed)
    for table, query in ((schemas.PRODUCERS, PRODUCER_ROWS), (schemas.TRANSACTIONS, TRANSACTION_ROWS)):
        with opened(table) as sink:
            sink.commit(_staged(engine, sink, query), {}, {topic for topic, _ in log_starts})


def _log_starts(found: Sequence[LogDirectory]) -> dict[tuple[str, int], int]:
    """Return the first offset of each partition. It is that of the first segment or above, also if compaction removed the first records."""
    starts: dict[tuple[str, int], int] = {}
    for segment in (segment for logs in found for segment in logs.segments):
        starts.setdefault((segment.topic, segment.partition), max(segment.base_offset, segment.log_start_offset))
    return starts


def _staged(engine: Engine, sink: Sink, query: str) -> list[DataFile]:
    """Write the rows of a query as data files of a table, and return the files. Readers of the table do not see the files until they are
    committed."""
    from ottla.spark_jobs.sinks.files import DataFile  # noqa: PLC0415 # PyArrow is optional
    from ottla.spark_jobs.sinks.schemas import FILES  # noqa: PLC0415 # PyArrow is optional

    return [DataFile(**row) for row in engine.map_in_arrow(query, sink.staging.write, FILES)]


def _key(row: Row) -> str:
    """Return the progress key of a partition: the table `records` stores under this key how far the partition was written."""
    return f"{row['topic']}-{row['partition']}"


def _end(row: Row) -> int:
    """Return the offset up to which a partition's records are written: its last stable offset, or its end without open transactions."""
    end: int = row["end_offset"] if row["last_stable_offset"] is None else row["last_stable_offset"]
    return end


def _start(records: Sink, row: Row) -> int:
    """Return the first offset of a partition that the table `records` does not contain yet. Raises CannotJudge if the log ends before this
    offset, or if several of the directories hold the partition."""
    start = records.progress(_key(row)) or 0
    if row["copies"] > 1:
        raise CannotJudge(f"{_key(row)} is in more than one directory: name the directory of one replica")
    if row["end_offset"] < start:
        raise CannotJudge(
            f"{_key(row)}: the table has its records up to offset {start - 1}, but the log ends at {row['end_offset'] - 1}: it was "
            "truncated, or is another log. Name another directory for the tables"
        )
    return start


def _judge(engine: Engine, paths: Sequence[str], topics: Sequence[str], key_field: str | None, expiration_ms: int) -> None:
    engine.read("raw_batches", "batches", paths, topics, views.RAW_BATCHES_NEED)
    args: dict[str, Any] = {"expiration_ms": expiration_ms}
    for name, query in (
        ("batches", views.batches()),
        ("producer_batches", views.producer_batches()),
        ("sequences", views.sequences()),
        ("late_retries", views.LATE_RETRIES),
    ):
        engine.define(name, query, args)
    engine.define("outcomes", OUTCOMES, args)
    engine.define("stable", STABLE, args)
    engine.define("transactions", views.TRANSACTIONS, args)
    engine.read("raw_states", "transactions", paths, [TRANSACTION_STATE], views.RAW_STATES_NEED)
    engine.read("records", "records", paths, topics, RECORDS_NEED)
    if key_field is None:
        engine.define("judged", JUDGED.format(**BY_SEQUENCE), args)
        return
    key = BusinessKey.parse(key_field)
    args |= {"json_path": engine.json_path(key.name), "header": key.name}
    engine.define("judged", JUDGED.format(once=views.KEYS[key.place], **BY_KEY), args)


def _count(engine: Engine, key_field: str | None) -> list[TopicCount]:
    """Return the counts by topic. Raises CannotJudge if no record has the business key, because with a misspelt key every duplicate would
    be written."""
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
    to: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="The directory of the tables (with --format delta also a URL); a later run into the same directory adds what is new.",
        ),
    ],
    paths: Annotated[list[str] | None, typer.Argument(metavar="DIR...", help="Log directories of Ottla or of Apache Kafka.")] = None,
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
    table_format: FormatOption = TableFormat.PARQUET,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    max_bytes_per_second: RateLimit = 0,
    spool: SpoolDir = None,
) -> None:
    """Write the committed records of a log to a table, each once: the first of each producer's sequence or of each business key.

    For example: ottla dedup data --to tables --format delta. The tables are records (with --key-field unique_records), producers and
    transactions. Run it again when the log has grown, or after it was killed: each record is in the table once. Exit code: 0 written, 2
    could not, or not all of it.
    """
    try:
        with progress() as show:
            show("reading and writing", 0, 1)
            read = with_server(paths, bootstrap_server)
            wire = Wire(command_config, max_bytes_per_second, spool)
            counts = dedup(
                read,
                to,
                table_format=table_format,
                topics=topic or (),
                key_field=key_field,
                engine=engine,
                master=master,
                memory_mb=memory_mb,
                wire=wire,
            )
    except (CannotJudge, OSError, ValueError) as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        raise typer.Exit(2) from error
    if as_json:
        print(json.dumps([asdict(count) for count in counts], indent=2))
    else:
        Console().print(_table(counts, to))
    unreadable, deleted = sum(count.unreadable for count in counts), sum(count.deleted for count in counts)
    if unreadable:
        print(f"error: {unreadable:,} batches cannot be read and are not in {to}: `ottla audit` shows them", file=sys.stderr)
    if deleted:
        print(f"error: {deleted:,} offsets were deleted after the last run and are not in {to}: run this more often", file=sys.stderr)
    if unreadable or deleted:
        raise typer.Exit(2)


def _table(counts: Sequence[TopicCount], to: str) -> Table:
    table = Table(title=Text(f"Written to {to}"), title_justify="left", header_style="bold")
    for heading in ("Topic", "Read", "Written", "New", "Aborted", "Open", "Duplicates", "Unreadable batches"):
        table.add_column(heading, justify="left" if heading == "Topic" else "right")
    for count in counts:
        numbers = (count.read, count.written, count.added, count.aborted, count.open, count.duplicate, count.unreadable)
        table.add_row(count.topic, *(f"{number:,}" for number in numbers))
    return table


if __name__ == "__main__":
    typer.run(dedup_command)

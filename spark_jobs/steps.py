"""The two steps that judge logs on the embedded engine: the first over whole partitions, the second over rows of all partitions.

Invariants:
- Each rule runs in one of the steps, according to its `scope`.
- In one process, both steps use the same engine and its tables. Distributed (see `audit_tasks`), each task runs the first step on its own
  engine and passes on the rows that SHUFFLED selects, and the second step reads those rows. The queries are the same, and so are the
  findings.
- Findings are limited to samples; their counts are exact.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.spark_jobs import group_views, views
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.checks.rule import PLACE, Needs, Rule, Scope
from ottla.spark_jobs.costs import COST_SIZES, COST_SPANS, COSTS
from ottla.spark_jobs.engines import Row
from ottla.spark_jobs.log_directory import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, LogDirectory
from ottla.spark_jobs.reports import pictures
from ottla.spark_jobs.reports.pictures import Drawn, FindingPlace

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark_jobs.engines.embedded import EmbeddedEngine

RowsRead = Mapping[str, "pa.RecordBatchReader"]
"""The rows of a large partition that other tasks have read, by the kind of row. `batches`: rows with the columns RAW_BATCHES_NEED;
`records`: the result of the query KEYED_RECORDS."""
Answer = dict[str, list[Row]]
"""A task's results: lists of rows under the names `findings`, `counts`, `producers`, `costs`, `deliveries`, `keys`, `extents`, and the
names that `pictures.picture_rows` returns."""

LOG_ENDS: Final = (
    "log_dir string, topic string, partition int, file string, position bigint, base_offset bigint, log_start_offset bigint, "
    "clean_shutdown boolean, high_watermark bigint"
)
"""The columns of the table `log_ends`, which has one row for the last segment of each partition: `position` is the segment's size in bytes,
`high_watermark` the broker's checkpointed high watermark."""


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """The options of an audit, the same for all its tasks. `key_place`: the place of the business key (one of views.KEYS); None without a
    business key. `args`: the values of the parameters in the rules' SQL. `whole_states`: the directories that hold every partition of
    `__transaction_state`. `recreated_topics`: partitions whose directories belong to different topics of one name, which are not compared
    as replicas. `topic_ids`: (directory, topic id, topic). `draws`: data for the HTML report's pictures is needed, too."""

    topics: Sequence[str]
    key_place: str | None
    deep: bool
    replicas: bool
    samples: int
    args: Mapping[str, Any]
    whole_states: Sequence[str] = ()
    recreated_topics: Sequence[tuple[str, int]] = ()
    topic_ids: Sequence[tuple[str, str, str]] = ()
    draws: bool = False

    @property
    def reads_records(self) -> bool:
        """Whether any rule of the audit reads records, not only batch headers."""
        return self.key_place is not None or self.deep

    @property
    def rules(self) -> list[Rule]:
        """The rules that the audit evaluates: all but those that need an option which was not given."""
        given = {Needs.NOTHING: True, Needs.KEY: self.key_place is not None, Needs.DEEP: self.deep, Needs.REPLICAS: self.replicas}
        return [rule for rule in RULES if given[rule.needs]]


@dataclass(slots=True)
class AvailableViews:
    """The SQL views that the first step has made, by the names that rules use. `transactional`: whether any batch in the logs is
    transactional."""

    names: set[str] = field(default_factory=set)
    transactional: bool = False

    def allows(self, rule: Rule) -> bool:
        """Return whether the rule's view exists and, if the rule is about transactions, some batch is transactional."""
        return rule.view in self.names and (self.transactional or not rule.needs_transactions)


class Shuffled(NamedTuple):
    """The rows of one view that each task of the first step passes to the second step. `query`: the SQL that selects them. `partition_by`:
    SQL for a hash of some columns; rows with equal hashes go to the same task of the second step. If it is empty, every task gets all
    rows."""

    query: str
    partition_by: str = ""


_OF_PRODUCER: Final = "xxhash64(CAST(log_dir AS STRING), producer_id)"
_OF_GROUP: Final = "xxhash64(CAST(log_dir AS STRING), group_id)"
_OF_TOPIC: Final = "xxhash64(CAST(log_dir AS STRING), CAST(topic AS STRING))"
SHUFFLED: Final[dict[str, Shuffled]] = {
    "counts": Shuffled("SELECT * FROM counts"),
    "logs": Shuffled("SELECT * FROM logs"),
    "newest_epochs": Shuffled("SELECT * FROM newest_epochs", _OF_PRODUCER),
    "transactions": Shuffled("SELECT * FROM transactions", _OF_PRODUCER),
    "unended": Shuffled("SELECT * FROM unended", _OF_PRODUCER),
    "states": Shuffled("SELECT * FROM states WHERE producer_id IS NOT NULL", _OF_PRODUCER),
    "group_commits": Shuffled(
        "SELECT * FROM group_commits WHERE transactional AND previous_transactional AND committed_offset < previous_offset", _OF_PRODUCER
    ),
    "share_ends": Shuffled("SELECT * FROM share_ends", _OF_GROUP),
    "cost_sizes": Shuffled("SELECT * FROM cost_sizes", _OF_TOPIC),
    "cost_spans": Shuffled("SELECT * FROM cost_spans", _OF_TOPIC),
    "visible_records": Shuffled(
        "SELECT log_dir, topic, partition, offset, timestamp, file, position, producer_id, producer_epoch, business_key, key_hash "
        "FROM visible_records WHERE business_key IS NOT NULL",
        "key_hash",
    ),
}
"""The second step's input: for each view, the rows and columns of the first step that the second step's rules read."""


def judge_partitions(
    engine: EmbeddedEngine, spec: AuditSpec, logs: Sequence[LogDirectory], rows_read: RowsRead | None = None
) -> tuple[Answer, AvailableViews]:
    """Run the first step of the audit over whole partitions: make the views, count, and evaluate the rules that compare rows of one
    partition (Scope.PARTITION). Return the answer and the views. `rows_read`: the partition's rows if other tasks have read them; None if
    the logs are read here. Raises OSError if a log cannot be read."""
    available = make_views(engine, spec, logs, rows_read)
    answer = {"counts": engine.rows("SELECT * FROM counts", {})}
    if "visible_records" in available.names and spec.key_place is not None:
        answer["keys"] = engine.rows("SELECT count(*) AS records, count(business_key) AS keyed FROM visible_records", {})
    if "share_states" in available.names:
        answer["deliveries"] = engine.rows(group_views.SHARE_DELIVERIES, {})
    if spec.draws:
        answer["extents"] = engine.rows(pictures.EXTENTS, {})
    answer["findings"] = _findings(engine, spec, [r for r in spec.rules if r.scope is Scope.PARTITION and available.allows(r)])
    return answer, available


def judge_across(engine: EmbeddedEngine, spec: AuditSpec, view_names: Collection[str]) -> Answer:
    """Run the second step of the audit, which evaluates the rules that compare several partitions. Return its answer: costs of
    transactions, the number of producers, and findings. `view_names`: the names of the first step's views, which exist in `engine`."""
    (sums,) = engine.rows("SELECT count_if(transactional > 0) AS transactional FROM counts", {})
    available = AvailableViews({*view_names}, sums["transactional"] > 0)
    answer = {"producers": engine.rows(views.PRODUCERS, {})}
    if available.transactional:
        engine.table("complete_states", "log_dir string", [(log_dir,) for log_dir in spec.whole_states])
        engine.define("open_transactions", views.OPEN_TRANSACTIONS, spec.args)
        answer["costs"] = engine.rows(COSTS, {})
    if "share_ends" in view_names:
        engine.table("topic_ids", "log_dir string, topic_id string, topic string", spec.topic_ids)
    answer["findings"] = _findings(engine, spec, [r for r in spec.rules if r.scope is not Scope.PARTITION and available.allows(r)])
    return answer


def make_views(engine: EmbeddedEngine, spec: AuditSpec, logs: Sequence[LogDirectory], rows_read: RowsRead | None = None) -> AvailableViews:
    """Make the SQL views of whole partitions that the audit's rules query (see `judge_partitions`), and return their names. Views for
    transactions, group offsets, index files, snapshots and high watermarks are made only if the logs contain any."""
    available = _make_batch_views(engine, spec, logs, rows_read)
    if spec.replicas:
        _make_replica_views(engine, spec, logs)
        available.names.add("replicas")
    if spec.reads_records:
        _make_record_views(engine, spec, logs, rows_read)
        available.names.add("visible_records")
    kinds = {file.kind for found in logs for file in found.of_topics(spec.topics).side_files}
    commits = any(segment.topic == CONSUMER_OFFSETS for found in logs for segment in found.of_topics(spec.topics).segments)
    # The task that reads `__transaction_state` passes its states on, even if none of the task's own batches is transactional.
    states = any(segment.topic == TRANSACTION_STATE for found in logs for segment in found.segments)
    if available.transactional or kinds or commits or states:
        _make_transaction_views(engine, spec, logs, available)
    if commits:
        engine.read("raw_offsets", "offsets", logs, [], views.RAW_OFFSETS_NEED)
        engine.define("group_commits", views.GROUP_COMMITS, spec.args)
        engine.read("raw_groups", "groups", logs, [], group_views.RAW_GROUPS_NEED)
        engine.define("group_records", group_views.GROUP_RECORDS, spec.args)
        available.names |= {"group_commits", "group_records"}
    if any(segment.topic == SHARE_GROUP_STATE for found in logs for segment in found.of_topics(spec.topics).segments):
        _make_share_views(engine, spec, logs, available)
    if kinds - {"snapshot"}:
        engine.read("raw_indexes", "indexes", logs, spec.topics, views.RAW_INDEXES_NEED)
        for name, query in (
            ("log_segments", views.LOG_SEGMENTS),
            ("time_lookups", views.TIME_LOOKUPS),
            ("epoch_lookups", views.EPOCH_LOOKUPS),
        ):
            engine.define(name, query, spec.args)
        available.names.add("indexes")
    if "snapshot" in kinds:
        engine.read("raw_snapshots", "snapshots", logs, spec.topics, views.RAW_SNAPSHOTS_NEED)
        available.names.add("snapshots")
    if ends := _log_ends(spec, logs):
        engine.table("log_ends", LOG_ENDS, ends)
        available.names.add("log_ends")
    return available


def _make_batch_views(
    engine: EmbeddedEngine, spec: AuditSpec, logs: Sequence[LogDirectory], rows_read: RowsRead | None = None
) -> AvailableViews:
    if rows_read is None:
        engine.read("raw_batches", "batches", logs, spec.topics, views.RAW_BATCHES_NEED)
    else:
        engine.store_batches("raw_batches", rows_read["batches"], logs)
    available = AvailableViews({"raw_batches"})
    for name, query in (
        ("batches", views.batches()),
        ("producer_batches", views.producer_batches()),
        ("sequences", views.sequences()),
        ("late_retries", views.LATE_RETRIES),
        ("counts", views.COUNTS),
        ("logs", views.LOGS),
        ("newest_epochs", views.NEWEST_EPOCHS),
    ):
        engine.define(name, query, spec.args)
        available.names.add(name)
    (sums,) = engine.rows("SELECT count_if(transactional > 0) AS transactional FROM counts", {})
    available.transactional = sums["transactional"] > 0
    return available


def _make_replica_views(engine: EmbeddedEngine, spec: AuditSpec, logs: Sequence[LogDirectory]) -> None:
    noted = [(found.path, *place, offset) for found in logs for place, offset in found.high_watermarks.items()]
    engine.table("high_watermarks", "log_dir string, topic string, partition int, high_watermark bigint", noted)
    engine.table("recreated_topics", "topic string, partition int", spec.recreated_topics)


def _make_record_views(engine: EmbeddedEngine, spec: AuditSpec, logs: Sequence[LogDirectory], rows_read: RowsRead | None) -> None:
    need, keyed = record_query(spec)
    if rows_read is None:
        engine.read("records", "records", logs, spec.topics, need, keep=False)
    else:
        engine.register("keyed_records", rows_read["records"])
        keyed = "SELECT * FROM keyed_records"
    engine.define("visible_records", views.VISIBLE_RECORDS.format(keyed=keyed), spec.args)


def record_query(spec: AuditSpec) -> tuple[str, str]:
    """Return the columns of level `records` to read for the audit's options, and the query KEYED_RECORDS over these columns."""
    place = spec.key_place or "none"
    need = views.RECORDS_NEED + (views.HEADERS_NEED if place == "header" or spec.replicas else "")
    return need, views.KEYED_RECORDS.format(key=views.KEYS[place], rest=views.RESTS[spec.replicas])


def _make_transaction_views(engine: EmbeddedEngine, spec: AuditSpec, logs: Sequence[LogDirectory], available: AvailableViews) -> None:
    engine.read("raw_states", "transactions", logs, [TRANSACTION_STATE], views.RAW_STATES_NEED)
    for name, query in (
        ("states", views.STATES),
        ("transactions", views.TRANSACTIONS),
        ("unended", views.UNENDED),
        ("cost_sizes", COST_SIZES),
        ("cost_spans", COST_SPANS),
    ):
        engine.define(name, query, spec.args)
        available.names.add(name)


def _make_share_views(engine: EmbeddedEngine, spec: AuditSpec, logs: Sequence[LogDirectory], available: AvailableViews) -> None:
    engine.read("raw_share_states", "share_states", logs, [], group_views.RAW_SHARE_STATES_NEED)
    for name, query in (
        ("share_states", group_views.SHARE_STATES),
        ("share_records", group_views.SHARE_RECORDS),
        ("share_ends", group_views.SHARE_ENDS),
    ):
        engine.define(name, query, spec.args)
        available.names.add(name)


def _log_ends(spec: AuditSpec, logs: Sequence[LogDirectory]) -> list[tuple[Any, ...]]:
    return [
        (s.log_dir, s.topic, s.partition, s.path, s.size_bytes, s.base_offset, s.log_start_offset, s.clean_shutdown, high_watermark)
        for found in logs
        for s in found.of_topics(spec.topics).segments
        if s.is_last and (high_watermark := found.high_watermarks.get((s.topic, s.partition))) is not None
    ]


def draw(
    engine: EmbeddedEngine, spec: AuditSpec, logs: Sequence[LogDirectory], drawn: Sequence[Drawn], found: Sequence[FindingPlace]
) -> Answer:
    """Return the data for the HTML report's pictures of the partitions in `drawn` (see `pictures.picture_rows`). The engine must not have
    any views yet."""
    available = _make_batch_views(engine, spec, logs)
    if available.transactional:
        engine.define("transactions", views.TRANSACTIONS, spec.args)
    return pictures.picture_rows(engine, drawn, found, transactional=available.transactional)


def _findings(engine: EmbeddedEngine, spec: AuditSpec, rules: Sequence[Rule]) -> list[Row]:
    """Return the first `samples` findings of each rule and severity in each directory. Each row has, as `total`, the exact number of
    findings with its directory, rule and severity; therefore one row is returned even if `samples` is 0."""
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
    return engine.rows(
        f"""
        SELECT * FROM (
            SELECT *,
                count(*) OVER (PARTITION BY log_dir, rule, severity) AS total,
                row_number() OVER (PARTITION BY log_dir, rule, severity
                                   ORDER BY topic, partition, file, position, offset, kind, evidence) AS place
            FROM ({found})
        ) WHERE place <= {max(1, spec.samples)} ORDER BY log_dir, rule, severity, place
        """,
        spec.args,
    )

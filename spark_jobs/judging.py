"""One run of the audit on an engine: makes the views, asks the rules that can be asked, and fills in the verdicts.

Rules that hold here: all directories are judged in the same queries, each by itself. Counts are exact; only samples are collected.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.spark_jobs import filesystem, views
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.checks.rule import PLACE, Needs, Rule, Severity
from ottla.spark_jobs.costs import COSTS, TopicCosts
from ottla.spark_jobs.engines import Engine, Row
from ottla.spark_jobs.log_directory import CONSUMER_OFFSETS, TRANSACTION_STATE, LogDirectory
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.reports.pictures import Pictures, collect
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.verdict import DirectoryVerdict, Finding, RuleResult
from ottla.spark_jobs.wire.sources import came_over_the_wire

TOPIC_ID: Final = re.compile(r"^topic_id: *(\S+)$", re.MULTILINE)
LOG_ENDS: Final = (
    "log_dir string, topic string, partition int, file string, position bigint, base_offset bigint, log_start_offset bigint, "
    "clean_shutdown boolean, high_watermark bigint"
)
"""The last segment of each partition, with its size as position, and what the broker noted as replicated."""
ONLY_IN_FILES: Final = frozenset({"indexes", "snapshots", "log_ends"})
"""Views of what brokers do not give over the wire."""


@dataclass(frozen=True, slots=True)
class BusinessKey:
    """Where the application's own key of a record is: `place` is one of views.KEYS, `name` the field or header in it."""

    place: str
    name: str = ""

    def __str__(self) -> str:
        """As it was given."""
        return {"key": "key:", "header": f"header:{self.name}"}.get(self.place, self.name)

    @classmethod
    def parse(cls, field: str) -> BusinessKey:
        """`order.id` (a field of the JSON value; `$...`, a path to it), `header:NAME`, or `key:` (the record's key). Raises CannotJudge."""
        if field == "key:":
            return cls("key")
        if field.startswith("header:"):
            return cls("header", field.removeprefix("header:"))
        if not all(field.split(".")) or '"' in field:
            raise CannotJudge(f"{field!r} names no key: it is a field of the JSON value (order.id), header:NAME, or key:")
        return cls("value", field)


@dataclass(frozen=True, slots=True)
class Job:
    """What one run judges, and how."""

    engine: Engine
    topics: Sequence[str]
    key: BusinessKey | None
    deep: bool
    replicas: bool
    samples: int
    args: dict[str, Any]
    verdicts: dict[str, DirectoryVerdict]
    progress: Callable[[str, int], None]
    pictures: dict[str, Pictures] | None = None
    """Filled in where it is there: what a page about the verdict draws."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """What is read in place of a path: a cluster's name says neither how to speak to it nor up to where it is read."""

    @property
    def paths(self) -> list[str]:
        """What holds a log, as engines read it."""
        return [self.sources.get(verdict.path, verdict.path) for verdict in self.verdicts.values() if verdict.segments]

    @property
    def rules(self) -> list[Rule]:
        """The rules that what was asked for allows to judge."""
        given = {Needs.NOTHING: True, Needs.KEY: self.key is not None, Needs.DEEP: self.deep, Needs.REPLICAS: self.replicas}
        return [rule for rule in RULES if given[rule.needs]]


def _make_views(job: Job) -> None:
    engine = job.engine
    engine.read("raw_batches", "batches", job.paths, job.topics, views.RAW_BATCHES_NEED)
    for name, query in (("batches", views.batches()), ("producer_batches", views.producer_batches()), ("sequences", views.sequences())):
        engine.define(name, query, job.args)
    if job.replicas:
        found = [find_logs(path, job.topics) for path in job.paths]
        noted = [(logs.path, *place, offset) for logs in found for place, offset in logs.high_watermarks.items()]
        engine.table("high_watermarks", "log_dir string, topic string, partition int, high_watermark bigint", noted)
        engine.table("namesakes", "topic string, partition int", _namesakes(job, found))
    if job.key is not None or job.deep:
        place = "none" if job.key is None else job.key.place
        need = views.RECORDS_NEED + (views.HEADERS_NEED if place == "header" else "")
        engine.read("records", "records", job.paths, job.topics, need, keep=False)
        query = views.VISIBLE_RECORDS.format(key=views.KEYS[place])
        engine.define("visible_records", query, job.args, keep=job.deep and (job.key is not None or job.replicas))


def _namesakes(job: Job, found: Sequence[LogDirectory]) -> list[tuple[str, int]]:
    """The partitions that are not all of one topic: a broker that was away while a topic was deleted and made anew has the old one's."""
    ids: dict[tuple[str, int], set[str]] = defaultdict(set)
    for logs in found:
        directories = {(segment.topic, segment.partition): segment.path.rpartition("/")[0] for segment in logs.segments}
        for partition, directory in directories.items():
            with suppress(OSError, ValueError):
                ids[partition] |= set(TOPIC_ID.findall(filesystem.place(logs.path).read(f"{directory}/partition.metadata").decode()))
    namesakes = sorted(partition for partition, several in ids.items() if len(several) > 1)
    for topic, index in namesakes:
        reason = f"{topic}-{index} is of different topics of this name in these directories (see partition.metadata): not compared"
        for verdict in job.verdicts.values():
            verdict.problems.append(reason)
    return namesakes


def _make_transaction_views(job: Job) -> None:
    found = [(path, find_logs(path, [TRANSACTION_STATE])) for path in job.paths]
    there = [path for path, logs in found if logs.segments]
    partitions = {logs.path: {segment.partition for segment in logs.segments} for _, logs in found if logs.segments}
    whole = [(name,) for name, numbers in partitions.items() if numbers == set(range(len(numbers)))]
    job.engine.table("complete_states", "log_dir string", whole)
    job.engine.read("raw_states", "transactions", there, [TRANSACTION_STATE], views.RAW_STATES_NEED)
    for name, query in (
        ("states", views.STATES),
        ("logs", views.LOGS),
        ("transactions", views.TRANSACTIONS),
        ("open_transactions", views.OPEN_TRANSACTIONS),
    ):
        job.engine.define(name, query, job.args)


def _make_further_views(job: Job, transactional: bool) -> set[str]:
    """Views of what a log need not have: transactions, group offsets, index files, snapshots, high watermarks. Gives those not made."""
    logs = [find_logs(path, job.topics) for path in job.paths]
    kinds = {file.kind for found in logs for file in found.side_files}
    ends = [
        (s.log_dir, s.topic, s.partition, s.path, s.size_bytes, s.base_offset, s.log_start_offset, s.clean_shutdown, high_watermark)
        for found in logs
        for s in found.segments
        if s.is_last and (high_watermark := found.high_watermarks.get((s.topic, s.partition))) is not None
    ]
    wanted = {
        "group_commits": any(segment.topic == CONSUMER_OFFSETS for found in logs for segment in found.segments),
        "indexes": bool(kinds - {"snapshot"}),
        "snapshots": "snapshot" in kinds,
        "log_ends": bool(ends),
    }
    if transactional or wanted["group_commits"] or wanted["indexes"] or wanted["snapshots"]:
        _make_transaction_views(job)
    if wanted["group_commits"]:
        job.engine.read("raw_offsets", "offsets", job.paths, [], views.RAW_OFFSETS_NEED)
        job.engine.define("group_commits", views.GROUP_COMMITS, job.args)
    if wanted["indexes"]:
        job.engine.read("raw_indexes", "indexes", job.paths, job.topics, views.RAW_INDEXES_NEED)
        for name, query in (
            ("log_segments", views.LOG_SEGMENTS),
            ("time_lookups", views.TIME_LOOKUPS),
            ("epoch_lookups", views.EPOCH_LOOKUPS),
        ):
            job.engine.define(name, query, job.args)
    if wanted["log_ends"]:
        job.engine.table("log_ends", LOG_ENDS, ends)
    if wanted["snapshots"]:
        job.engine.read("raw_snapshots", "snapshots", job.paths, job.topics, views.RAW_SNAPSHOTS_NEED)
    return {view for view, made in wanted.items() if not made}


def _count(job: Job) -> bool:
    """Fill in the counts; whether any batch is transactional."""
    transactional = 0
    for row in job.engine.rows(views.COUNTS, job.args):
        verdict = job.verdicts[row["log_dir"]]
        verdict.batches, verdict.records, verdict.producers = row["batches"], row["records"], row["producers"]
        if row["legacy"]:
            verdict.notes.append(f"{row['legacy']} messages in the formats before v2: only their offsets and checksums were judged")
        transactional += row["transactional"]
    return transactional > 0


def run(job: Job) -> None:
    """Judge. The verdicts are complete afterwards."""
    job.progress("planning", 1)
    _make_views(job)
    rules = job.rules
    by_name = {rule.name: rule for rule in rules}
    for verdict in job.verdicts.values():
        fetched = came_over_the_wire(verdict.path)
        for rule in rules:
            verdict.rules[rule.name].judged = bool(verdict.segments) and not (fetched and rule.view in ONLY_IN_FILES)
    job.progress("reading", 2)
    of_records = [rule for rule in rules if rule.view == "visible_records"]
    with ThreadPoolExecutor(1, "rules") as pool:
        # Records take longest: their rules begin while the batches are being read. All others are one query, for planning and starting
        # one takes longer than running it.
        early = pool.submit(_judge, job, of_records) if job.engine.concurrent else None
        transactional = _count(job)
        missing = _make_further_views(job, transactional)
        if transactional:
            for row in job.engine.rows(COSTS, job.args):
                job.verdicts[row["log_dir"]].costs.append(TopicCosts(**{name: row[name] for name in row if name != "log_dir"}))
        left_out = {"visible_records", *missing}
        others = [rule for rule in rules if rule.view not in left_out and (transactional or not rule.needs_transactions)]
        job.progress("judging", 3)
        found = _judge(job, others)
        job.progress("judging records", len(others) + 2)
        found += _judge(job, of_records) if early is None else early.result()
    _miss_key(job)
    for row in found:
        _add(job.verdicts[row["log_dir"]].rules[row["rule"]], by_name[row["rule"]], row, job.samples)
    if job.pictures is not None:
        job.pictures.update(collect(job.engine, job.verdicts.values(), transactional=transactional, args=job.args))


def _miss_key(job: Job) -> None:
    """A misspelt key, which no record has, must not be called clean."""
    if job.key is None or job.engine.rows("SELECT topic FROM visible_records WHERE business_key IS NOT NULL LIMIT 1", job.args):
        return
    if job.engine.rows("SELECT topic FROM visible_records LIMIT 1", job.args):
        for verdict in job.verdicts.values():
            verdict.rules["business-key"].judged = False
            verdict.problems.append(f"{verdict.path}: no record has the key --key-field {job.key}")


def _judge(job: Job, rules: Sequence[Rule]) -> list[Row]:
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

"""Runs the audit once: passes its options to a judge (DuckDB in this process, or Spark), and fills the verdicts with the rows that
the judge returns.

Invariants:
- All directories are judged in the same queries, each independently of the others.
- Counts are exact; only samples of findings are collected.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from ottla.spark_jobs import filesystem
from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.costs import TopicCosts
from ottla.spark_jobs.deliveries import ShareDeliveries
from ottla.spark_jobs.engines import Row
from ottla.spark_jobs.log_directory import SHARE_GROUP_STATE, TRANSACTION_STATE, LogDirectory
from ottla.spark_jobs.merging import finding_order
from ottla.spark_jobs.reports.pictures import Extent, FindingPlace, Pictures, collect
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.steps import Answer, AuditSpec
from ottla.spark_jobs.verdict import DirectoryVerdict, Finding
from ottla.spark_jobs.wire.sources import is_fetched

TOPIC_ID: Final = re.compile(r"^topic_id: *(\S+)$", re.MULTILINE)
ONLY_IN_FILES: Final = frozenset({"indexes", "snapshots", "log_ends", "share_ends"})
"""Views that need files which brokers do not serve. Rules on these views are reported as not judged for logs fetched over the network."""


@dataclass(frozen=True, slots=True)
class BusinessKey:
    """The place of a record's business key, an identifier such as an order number that must be unique in a topic. `place`: `value`, `key`
    or `header`. `name`: the field of the JSON value, or the header."""

    place: str
    name: str = ""

    def __str__(self) -> str:
        """Return the business key as the command line option --key-field names it, such as `order.id` or `header:NAME`."""
        return {"key": "key:", "header": f"header:{self.name}"}.get(self.place, self.name)

    @classmethod
    def parse(cls, field: str) -> BusinessKey:
        """Parse the argument of --key-field: `order.id` (a field of the JSON value; `$...` is a JSON path), `header:NAME`, or `key:` (the
        record's key). Raises CannotJudge if it has none of these forms."""
        if field == "key:":
            return cls("key")
        if field.startswith("header:"):
            return cls("header", field.removeprefix("header:"))
        if not all(field.split(".")) or '"' in field:
            raise CannotJudge(f"{field!r} names no key: it is a field of the JSON value (order.id), header:NAME, or key:")
        return cls("value", field)


class Judge(Protocol):
    """A class that runs the audit's two steps, first over each partition and then across partitions (see `steps`): in this process, or on
    Spark."""

    @property
    def name(self) -> str:
        """The engine's name, as the verdict reports it: `duckdb` or `spark`."""

    def judge(self, spec: AuditSpec, logs: Sequence[LogDirectory]) -> Iterable[Answer]:
        """Run both steps of the audit, and return the rows (findings, counts and others, see `Answer`) that the steps' tasks return, in any
        order. Raises OSError if a log cannot be read."""

    def draw(
        self, spec: AuditSpec, logs: Sequence[LogDirectory], drawn: Sequence[Extent], found: Sequence[FindingPlace]
    ) -> Iterable[Answer]:
        """Return the data for the HTML report's pictures of the partitions in `drawn`, and the batch headers of the findings in `found`
        (see `pictures.picture_rows`). Call it after `judge`."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of the audit. `logs`: the listings of the directories with all topics; `spec.topics` limits what is judged."""

    judge: Judge
    logs: Sequence[LogDirectory]
    spec: AuditSpec
    key: BusinessKey | None
    verdicts: dict[str, DirectoryVerdict]
    pictures: dict[str, Pictures] | None = None
    """The data for the HTML report's pictures, by directory, which `run` fills in; None if no pictures are drawn."""


def run(job: Job) -> None:
    """Judge all logs of the run; fill `job.verdicts` with the results and, if pictures are drawn, `job.pictures` with their data."""
    logs = [LogDirectory(each.path, each.segments, each.side_files, high_watermarks=each.high_watermarks) for each in job.logs]
    logs = [each for each in logs if job.verdicts[each.path].segments]
    spec = replace(
        job.spec,
        whole_states=_whole_states(logs),
        recreated_topics=_recreated_topics(job, logs) if job.spec.replicas else (),
        topic_ids=[(each.path, topic_id, topic) for each in logs for topic_id, topic in _topic_ids(each)],
        draws=job.pictures is not None,
    )
    for verdict in job.verdicts.values():
        fetched = is_fetched(verdict.path)
        for rule in spec.rules:
            verdict.rules[rule.name].judged = bool(verdict.segments) and not (fetched and rule.view in ONLY_IN_FILES)
    if spec.replicas:
        _report_no_replicas(job, logs)
    answers = rows_by_kind(job.judge.judge(spec, logs))
    _count(job, answers)
    for row in sorted(answers["costs"], key=lambda row: (row["log_dir"], row["topic"])):
        job.verdicts[row["log_dir"]].costs.append(TopicCosts(**{name: row[name] for name in row if name != "log_dir"}))
    _add_deliveries(job, spec, answers["deliveries"])
    _add_findings(job, answers["findings"])
    _report_missing_key(job, answers["keys"])
    if job.pictures is not None:
        job.pictures.update(
            collect(job.verdicts.values(), answers["extents"], lambda *what: rows_by_kind(job.judge.draw(spec, logs, *what)))
        )


def rows_by_kind(answers: Iterable[Answer]) -> Mapping[str, list[Row]]:
    """Return the rows of all tasks' answers by their kind (such as `findings` or `counts`)."""
    found: dict[str, list[Row]] = defaultdict(list)
    for answer in answers:
        for what, rows in answer.items():
            found[what] += rows
    return found


def _whole_states(logs: Sequence[LogDirectory]) -> list[str]:
    indexes = {found.path: {segment.partition for segment in found.segments if segment.topic == TRANSACTION_STATE} for found in logs}
    return [path for path, found in indexes.items() if found and found == set(range(len(found)))]


def _recreated_topics(job: Job, found: Sequence[LogDirectory]) -> list[tuple[str, int]]:
    """Return the partitions (topic, index) whose replicas belong to different topics: the directories have different topic ids for the same
    topic name. Add a problem to all verdicts for each of these partitions.

    A broker that was offline while a topic was deleted and recreated still has the old topic's partitions.
    """
    ids: dict[tuple[str, int], set[str]] = defaultdict(set)
    for logs in found:
        for partition, directory in _directories(logs.of_topics(job.spec.topics)).items():
            ids[partition] |= set(_ids_in(logs, directory))
    recreated = sorted(partition for partition, several in ids.items() if len(several) > 1)
    for topic, index in recreated:
        reason = f"{topic}-{index} is of different topics of this name in these directories (see partition.metadata): not compared"
        for verdict in job.verdicts.values():
            verdict.problems.append(reason)
    return recreated


def _report_no_replicas(job: Job, logs: Sequence[LogDirectory]) -> None:
    """Mark the rule `replicas` as not judged, and add a problem, if no partition is in two directories: comparing nothing must not give a
    clean verdict."""
    copies = Counter(partition for each in logs for partition in _directories(each.of_topics(job.spec.topics)))
    if max(copies.values(), default=0) < 2:
        for verdict in job.verdicts.values():
            verdict.rules["replicas"].judged = False
            verdict.problems.append(f"{verdict.path}: --replicas has nothing to compare: no partition is in two of the directories")


def _directories(logs: LogDirectory) -> dict[tuple[str, int], str]:
    return {(s.topic, s.partition): s.path.rpartition("/")[0] for s in logs.segments}


def _ids_in(logs: LogDirectory, directory: str) -> list[str]:
    with suppress(OSError, ValueError):
        return TOPIC_ID.findall(filesystem.place(logs.path).read(f"{directory}/partition.metadata").decode())
    return []


def _topic_ids(logs: LogDirectory) -> list[tuple[str, str]]:
    """Return (topic id, topic) of each topic of a directory, sorted. The list is empty without `__share_group_state`, because only its
    records refer to topics by id, and for logs fetched over the wire, because brokers do not serve `partition.metadata`."""
    if is_fetched(logs.path) or not any(segment.topic == SHARE_GROUP_STATE for segment in logs.segments):
        return []
    one_of_each = {topic: directory for (topic, _), directory in _directories(logs).items()}
    return sorted((topic_id, topic) for topic, directory in one_of_each.items() for topic_id in _ids_in(logs, directory))


def _add_deliveries(job: Job, spec: AuditSpec, rows: Sequence[Row]) -> None:
    names = {(path, topic_id): topic for path, topic_id, topic in spec.topic_ids}
    for row in rows:
        topic = str(names.get((row["log_dir"], row["topic_id"]), row["topic_id"]))
        counts = {name: row[name] for name in row if name not in {"log_dir", "topic_id", "share_partition"}}
        job.verdicts[row["log_dir"]].deliveries.append(ShareDeliveries(topic=topic, partition=row["share_partition"], **counts))
    for verdict in job.verdicts.values():
        verdict.deliveries.sort(key=lambda each: (each.group_id, each.topic, each.partition))


def _count(job: Job, answers: Mapping[str, list[Row]]) -> None:
    legacy: Counter[str] = Counter()
    for row in answers["counts"]:
        verdict = job.verdicts[row["log_dir"]]
        verdict.batches += row["batches"]
        verdict.records += row["records"]
        legacy[row["log_dir"]] += row["legacy"]
    for row in answers["producers"]:
        job.verdicts[row["log_dir"]].producers += row["producers"]
    for path in sorted(path for path, messages in legacy.items() if messages):
        job.verdicts[path].notes.append(f"{legacy[path]} messages in the formats before v2: only their offsets and checksums were judged")


def _report_missing_key(job: Job, rows: Sequence[Row]) -> None:
    """Mark the rule `business-key` as not judged, and add a problem, if no record has the key: a misspelt --key-field must not give a clean
    verdict."""
    if any(row["records"] for row in rows) and not any(row["keyed"] for row in rows):
        for verdict in job.verdicts.values():
            verdict.rules["business-key"].judged = False
            verdict.problems.append(f"{verdict.path}: no record has the key --key-field {job.key}")


def _add_findings(job: Job, rows: Iterable[Row]) -> None:
    """Add the findings of all tasks to the verdicts: for each directory, rule and severity the exact number of findings, and the first ones
    as samples."""
    of_kind: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        of_kind[row["log_dir"], row["rule"], row["severity"]].append(row)
    for (path, rule, severity), found in sorted(of_kind.items()):
        result = job.verdicts[path].rules[rule]
        total = sum(row["total"] for row in found if row["place"] == 1)
        match Severity(severity):
            case Severity.VIOLATION:
                result.violations = total
            case Severity.WARNING:
                result.warnings = total
            case Severity.INFO:
                result.infos = total
        result.samples += [_finding(row) for row in sorted(found, key=finding_order)[: job.spec.samples]]


def _finding(row: Row) -> Finding:
    place = (row["kind"], row["topic"], row["partition"], row["offset"], row["file"], row["position"])
    return Finding(row["rule"], Severity(row["severity"]), *place, json.loads(row["evidence"]))

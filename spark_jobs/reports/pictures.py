"""The data of the HTML report's pictures: the offsets that each producer wrote, the transactions, and the batch headers of findings.

Invariants:
- The data is bounded, however long the log is. Pictures are drawn of a limited number of partitions: first those with findings, then the
  largest ones. Each picture shows the first producers and transactions, and the number of the omitted ones.
- If Spark judges, the drawn partitions are read a second time: of each partition the first segments, up to DRAWN_BYTES_MAX, and as many
  bytes of segments with findings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.spark_jobs.engines import Engine, Row
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.verdict import DirectoryVerdict, Finding

PARTITIONS_MAX: Final = 24
SPANS_MAX: Final = 40
TRANSACTIONS_MAX: Final = 200
DRAWN_BYTES_MAX: Final = 1 << 30
"""The maximum number of a partition's bytes that are read again for its picture. The limit applies separately to the partition's first
segments and to its segments with findings; at least one segment of each group is read, whatever its size."""
LOG_END: Final = 2**63 - 1
"""The end offset of a picture that shows its whole partition."""

TopicPartition = tuple[str, int]
Extent = tuple[str, str, int]
"""Names a partition: (log directory, topic, partition)."""
Drawn = tuple[str, str, int, int]
"""Names a partition whose picture is drawn, and the offset at which the picture ends: (log directory, topic, partition, end offset). The
end offset is LOG_END if the picture ends at the log's end."""
FindingPlace = tuple[str, str, int, str, int]
"""The place of a finding: (log directory, topic, partition, file, position in the file in bytes)."""
QueryPictures = Callable[[Sequence[Extent], Sequence[FindingPlace]], Mapping[str, Sequence[Row]]]

BATCH_FIELDS: Final = (
    "base_offset",
    "last_offset",
    "size_bytes",
    "magic",
    "crc_ok",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
    "record_count",
    "records_found",
    "last_offset_delta",
    "transactional",
    "control",
    "marker",
    "coordinator_epoch",
    "max_timestamp",
    "error",
)
"""The fields of a batch that the report shows with a finding. They are columns of level `batches` (see `columns`)."""

EXTENTS: Final = """
    SELECT log_dir, topic, partition, min(base_offset) AS first_offset, max(last_offset) AS last_offset, sum(size_bytes) AS size_bytes
    FROM batches GROUP BY log_dir, topic, partition
"""
_SPANS: Final = f"""
    SELECT * FROM (
        SELECT *,
            row_number() OVER (PARTITION BY log_dir, topic, partition ORDER BY first_offset, producer_id) AS place,
            count(*) OVER (PARTITION BY log_dir, topic, partition) AS total
        FROM (
            SELECT b.log_dir, b.topic, b.partition, b.producer_id, b.producer_epoch, min(b.base_offset) AS first_offset,
                max(b.last_offset) AS last_offset, count(*) AS batches, sum(b.record_count) AS records,
                bool_or(b.transactional) AS transactional
            FROM batches b JOIN drawn d ON d.log_dir = b.log_dir AND d.topic = b.topic AND d.partition = b.partition
            WHERE NOT b.control AND b.base_offset < d.end_offset
            GROUP BY b.log_dir, b.topic, b.partition, b.producer_id, b.producer_epoch
        )
    ) WHERE place <= {SPANS_MAX} ORDER BY log_dir, topic, partition, place
"""
_TRANSACTIONS: Final = f"""
    SELECT * FROM (
        SELECT t.log_dir, t.topic, t.partition, t.producer_id, t.data_epoch, t.first_offset, t.marker_offset, t.outcome, t.data_records,
            row_number() OVER (PARTITION BY t.log_dir, t.topic, t.partition ORDER BY t.first_offset) AS place,
            count(*) OVER (PARTITION BY t.log_dir, t.topic, t.partition) AS total
        FROM transactions t JOIN drawn d ON d.log_dir = t.log_dir AND d.topic = t.topic AND d.partition = t.partition
        WHERE t.data_records > 0 AND (d.end_offset = {LOG_END} OR t.marker_offset < d.end_offset)
    ) WHERE place <= {TRANSACTIONS_MAX} ORDER BY log_dir, topic, partition, place
"""
_BATCHES: Final = f"""
    SELECT f.log_dir, f.file, f.position, {", ".join(f"b.{name}" for name in BATCH_FIELDS)}
    FROM raw_batches b JOIN found f ON f.log_dir = b.log_dir AND f.file = b.file AND f.position = b.position
"""


@dataclass(frozen=True, slots=True)
class Span:
    """All batches of one producer in one epoch, as a bar of the picture; producer id -1 for records without a producer id."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    batches: int
    records: int
    transactional: bool


@dataclass(frozen=True, slots=True)
class TransactionSpan:
    """One transaction in one partition, from its first record to its marker. `outcome`: commit, abort, or None while it is open."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    outcome: str | None
    records: int


@dataclass(slots=True)
class PartitionPicture:
    """The data of one partition's picture, which has a row (lane) for each producer epoch. Offsets are inclusive. `more_spans`,
    `more_transactions`: the numbers of omitted producer epochs and transactions. `end_offset`: the offset at which the picture ends if the
    partition is too large to be drawn whole; otherwise None."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    spans: list[Span] = field(default_factory=list)
    transactions: list[TransactionSpan] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    more_spans: int = 0
    more_transactions: int = 0
    end_offset: int | None = None

    @property
    def lanes(self) -> list[tuple[Span, list[TransactionSpan]]]:
        """The rows of the picture: each producer epoch with its transactions."""
        ran: dict[tuple[int, int], list[TransactionSpan]] = defaultdict(list)
        for each in self.transactions:
            ran[each.producer_id, each.producer_epoch].append(each)
        return [(span, ran.get((span.producer_id, span.producer_epoch), [])) for span in self.spans]


@dataclass(slots=True)
class Pictures:
    """The data of the HTML report's pictures about one log directory. `batches`: header fields by file and position."""

    partitions: list[PartitionPicture] = field(default_factory=list)
    batches: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    more_partitions: int = 0


def collect(verdicts: Iterable[DirectoryVerdict], extents: Iterable[Row], query: QueryPictures) -> dict[str, Pictures]:
    """Return the data for the pictures of each judged directory. `extents`: for each partition, its first and last offset and its size (the
    rows of EXTENTS). `query`: a function that runs `picture_rows` for the partitions that are chosen here, in the tasks that read them, and
    returns its rows."""
    findings = {verdict.path: [finding for result in verdict.rules.values() for finding in result.samples] for verdict in verdicts}
    pictures = {path: Pictures() for path in findings}
    drawn = _choose(findings, pictures, extents)
    if not drawn:
        return pictures
    found = {(path, each.topic, each.partition, each.file, each.position) for path, some in findings.items() for each in some if each.file}
    rows = query([(path, *place) for path, place in drawn], sorted(found))
    for row in rows["spans"]:
        picture = drawn[row["log_dir"], (row["topic"], row["partition"])]
        names = ("producer_id", "producer_epoch", "first_offset", "last_offset", "batches", "records", "transactional")
        picture.spans.append(Span(*(row[name] for name in names)))
        picture.more_spans = row["total"] - len(picture.spans)
    _add_transactions(rows.get("transactions", ()), drawn)
    for row in rows.get("ends", ()):
        drawn[row["log_dir"], (row["topic"], row["partition"])].end_offset = row["end_offset"]
    for row in rows.get("batches", ()):
        pictures[row["log_dir"]].batches[row["file"], row["position"]] = {name: row[name] for name in BATCH_FIELDS}
    return pictures


def limit_drawn_logs(
    logs: Iterable[LogDirectory], drawn: Sequence[Extent], found: Sequence[FindingPlace]
) -> tuple[list[LogDirectory], list[Drawn], list[Row]]:
    """Limit what is read for the pictures: of each drawn partition the first segments, up to DRAWN_BYTES_MAX, and the segments with
    findings, up to the same limit.

    Return the segments to read; the drawn partitions, each with the offset at which its picture ends (LOG_END: at the log's end); and a
    row for each partition whose picture ends before its log.
    """
    places, files = {place[:3] for place in (*drawn, *found)}, {file for *_, file, _ in found}
    ends: dict[Extent, int] = {}
    read: dict[tuple[Extent, bool], int] = defaultdict(int)
    some = []
    for each in logs:
        some.append(LogDirectory(each.path))
        for segment in each.segments:  # a partition's segments are in offset order
            place = (segment.log_dir, segment.topic, segment.partition)
            if place not in places:
                continue
            early = place not in ends
            if read[place, early] and read[place, early] + segment.size_bytes > DRAWN_BYTES_MAX:
                ends.setdefault(place, segment.base_offset)
                early = False
            if early or (segment.path in files and (not read[place, False] or read[place, False] + segment.size_bytes <= DRAWN_BYTES_MAX)):
                read[place, early] += segment.size_bytes
                some[-1].segments.append(segment)
    names = ("log_dir", "topic", "partition", "end_offset")
    early_ends: list[Row] = [dict(zip(names, (*place, ends[place]), strict=True)) for place in drawn if place in ends]
    return some, [(*place, ends.get(place, LOG_END)) for place in drawn], early_ends


def picture_rows(engine: Engine, drawn: Sequence[Drawn], found: Sequence[FindingPlace], *, transactional: bool) -> dict[str, list[Row]]:
    """Return the rows that the pictures of some partitions need, and the headers of batches with findings. The views of these partitions
    must exist, including `transactions` if `transactional`."""
    engine.table("drawn", "log_dir string, topic string, partition int, end_offset bigint", drawn)
    rows = {"spans": engine.rows(_SPANS, {})}
    if transactional:
        rows["transactions"] = engine.rows(_TRANSACTIONS, {})
    if found:
        places = sorted({(path, file, position) for path, _, _, file, position in found})
        engine.table("found", "log_dir string, file string, position bigint", places)
        rows["batches"] = engine.rows(_BATCHES, {})
    return rows


def _choose(
    findings: Mapping[str, Sequence[Finding]], pictures: Mapping[str, Pictures], extents: Iterable[Row]
) -> dict[tuple[str, TopicPartition], PartitionPicture]:
    of_directory: dict[str, list[Row]] = defaultdict(list)
    for row in extents:
        of_directory[row["log_dir"]].append(row)
    drawn = {}
    for path, rows in of_directory.items():
        of_place: dict[TopicPartition, list[Finding]] = defaultdict(list)
        for finding in findings.get(path, ()):
            of_place[finding.topic, finding.partition].append(finding)
        rows.sort(key=lambda row: (-len(of_place[row["topic"], row["partition"]]), -row["size_bytes"], row["topic"], row["partition"]))
        for row in rows[:PARTITIONS_MAX]:
            place = (row["topic"], row["partition"])
            picture = PartitionPicture(*place, row["first_offset"], row["last_offset"], findings=of_place[place])
            pictures[path].partitions.append(picture)
            drawn[path, place] = picture
        pictures[path].more_partitions = max(0, len(rows) - PARTITIONS_MAX)
    return drawn


def _add_transactions(rows: Iterable[Row], drawn: Mapping[tuple[str, TopicPartition], PartitionPicture]) -> None:
    for row in rows:
        picture = drawn[row["log_dir"], (row["topic"], row["partition"])]
        end = picture.last_offset if row["marker_offset"] is None else row["marker_offset"]
        picture.transactions.append(
            TransactionSpan(row["producer_id"], row["data_epoch"], row["first_offset"], end, row["outcome"], row["data_records"])
        )
        picture.more_transactions = row["total"] - len(picture.transactions)

"""`ottla explain TOPIC-PARTITION@OFFSET DIR`: explains which producer wrote a record, in which transaction, and which consumers can see it.

Invariants:
- Only the log directory is read, in its state at that moment. Facts that the log does not contain (because its first segments were deleted,
  or `__transaction_state` is missing) are reported as unknown, never guessed.
- The last stable offset is the first offset of the oldest transaction without a marker (Kafka's `UnifiedLog.lastStableOffset`).
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ottla.protocol.printable import printable, printable_name
from ottla.protocol.records.batch import MAGIC_V2
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.tables import Filters, read
from ottla.spark_jobs.wire.sources import CommandConfig, Wire, sources

PLACE: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)@(?P<offset>\d+)")
_BATCH: Final = (
    "file",
    "position",
    "size_bytes",
    "base_offset",
    "last_offset",
    "leader_epoch",
    "magic",
    "codec",
    "log_append_time",
    "transactional",
    "control",
    "record_count",
    "base_sequence",
    "producer_id",
    "producer_epoch",
    "max_timestamp",
    "crc_ok",
    "marker",
    "log_start_offset",
    "segment",
)
_TEXT_MAX: Final = 120


class OffsetNotFound(Exception):
    """The log has no batch with the offset; the text gives the reason."""


@dataclass(slots=True)
class Transaction:
    """The transaction to which a batch belongs. `ended`: the offset of its marker; None while it is open. `state`: the latest state of
    `transactional_id` in `__transaction_state`."""

    first_offset: int
    outcome: str | None = None
    ended: int | None = None
    transactional_id: str | None = None
    state: str | None = None


@dataclass(slots=True)
class Explanation:
    """The facts about one offset. `batch`, `record`: columns of the batch and of the record at the offset. `sequence`: the sequence number
    of this record, not the batch's base sequence. `holding_back`: (producer id, first offset) of the oldest open transaction, which
    determines the last stable offset."""

    topic: str
    partition: int
    offset: int
    batch: dict[str, Any]
    sequence: int | None = None
    record: dict[str, Any] | None = None
    transaction: Transaction | None = None
    last_stable_offset: int | None = None
    holding_back: tuple[int, int] | None = None
    groups: dict[str, int] = field(default_factory=dict)
    """Committed offsets for the partition, by consumer group."""

    @property
    def visible(self) -> tuple[bool, str]:
        """Whether a read_committed consumer receives the record, and the reason."""
        if self.batch["control"]:
            return False, "it is a marker, which no consumer receives"
        if self.batch["crc_ok"] is False:
            return False, "its checksum is wrong: a consumer fails on it"
        if self.record is None and self.batch["magic"] == MAGIC_V2:
            return False, "its record cannot be read, or was removed: compaction removes records and keeps their batch"
        if self.transaction is not None and self.transaction.outcome == "abort":
            return False, f"its transaction was aborted at offset {self.transaction.ended}"
        if self.transaction is not None and self.transaction.outcome is None:
            return False, f"its transaction is open: it began at offset {self.transaction.first_offset} and has no marker"
        if self.last_stable_offset is not None and self.offset >= self.last_stable_offset and self.holding_back is not None:
            producer_id, first = self.holding_back
            return False, f"not yet: producer {producer_id} has had a transaction open since offset {first}, and nothing after it is stable"
        if self.transaction is None:
            return True, "it was written outside of any transaction"
        return True, f"its transaction was committed at offset {self.transaction.ended}"


def explain(place: str, path: str | Path) -> Explanation:
    """Return the facts about the record at `place` (`topic-partition@offset`) in the log directory `path`. Raises OffsetNotFound if `place`
    is malformed or the log has no batch with the offset, OSError if the log cannot be read."""
    match = PLACE.fullmatch(place)
    if match is None:
        raise OffsetNotFound(f"{place!r} is not TOPIC-PARTITION@OFFSET, such as orders-0@1234")
    topic, partition, offset = match["topic"], int(match["partition"]), int(match["offset"])
    one = Filters(topics=frozenset({topic}), partitions=frozenset({partition}))
    found = _find(topic, partition, offset, path, one)
    if not found.batch["control"]:
        found.record = next(_records(path, one, offset), None)
    if found.batch["base_sequence"] >= 0:
        found.sequence = (found.batch["base_sequence"] + offset - found.batch["base_offset"]) & 0x7FFFFFFF
    if found.transaction is not None:
        _add_coordinator_state(found, path)
    found.groups = _groups(topic, partition, path)
    return found


def _find(topic: str, partition: int, offset: int, path: str | Path, one: Filters) -> Explanation:
    """Scan the partition's batch headers once; return an `Explanation` with the batch that holds the offset, its transaction, and the
    oldest transaction that is open at the log's end. `one`: filters that select this partition.

    A batch with a wrong CRC is returned only if no other batch holds the offset. Other facts do not depend on its header. Raises
    OffsetNotFound if no batch holds the offset.
    """
    open_: dict[int, int] = {}
    found: Explanation | None = None
    first, last = None, -1
    for batch in _rows("batches", path, one, _BATCH):
        if batch["base_offset"] is None:
            continue
        first = max(batch["log_start_offset"], batch["segment"]) if first is None else first
        producer_id = batch["producer_id"]
        holds = batch["base_offset"] <= offset <= batch["last_offset"]
        if batch["crc_ok"] is False:
            if holds and found is None:
                found = Explanation(topic, partition, offset, batch)
            continue
        last = max(last, batch["last_offset"])
        if holds:
            found = Explanation(topic, partition, offset, batch)
        if batch["control"]:
            began = open_.pop(producer_id, None) if batch["marker"] else None
            if began is not None and found is not None:
                _apply_marker(found, batch, began, here=holds)
        elif batch["transactional"]:
            open_.setdefault(producer_id, batch["base_offset"])
            if holds and found is not None:
                found.transaction = Transaction(open_[producer_id])
    if first is None:
        logs = find_logs(path, [topic])
        raise OffsetNotFound("; ".join(logs.problems) or f"{logs.path} has no records of {topic}-{partition}")
    if found is None:
        where = "before the log's start" if offset < first else "after its end" if offset > last else "in a hole (compacted or lost)"
        offsets = f"offsets {first} to {last}" if last >= 0 else "no batch with a correct checksum"
        raise OffsetNotFound(f"{topic}-{partition}@{offset} is {where}: the log holds {offsets}")
    if open_:
        found.holding_back = min(open_.items(), key=lambda each: each[1])
    found.last_stable_offset = last + 1 if found.holding_back is None else found.holding_back[1]
    return found


def _apply_marker(found: Explanation, marker: dict[str, Any], began: int, *, here: bool) -> None:
    """If the marker ends the transaction in `found`, set the transaction's outcome. `began`: the offset at which the marker's transaction
    began. `here`: the marker is itself the record to explain."""
    if here:
        found.transaction = Transaction(began, marker["marker"], marker["base_offset"])
    elif found.transaction is not None and found.transaction.ended is None and found.batch["producer_id"] == marker["producer_id"]:
        found.transaction.outcome, found.transaction.ended = marker["marker"], marker["base_offset"]


def _records(path: str | Path, one: Filters, offset: int) -> Iterator[dict[str, Any]]:
    at = Filters(one.topics, one.partitions, start_offset=offset, end_offset=offset + 1)
    for record in _rows("records", path, at, ("offset", "timestamp", "key", "value", "headers")):
        if record["offset"] == offset:
            yield record


def _add_coordinator_state(found: Explanation, path: str | Path) -> None:
    for row in _rows("transactions", path, Filters(), ("transactional_id", "producer_id", "state")):
        if row["producer_id"] == found.batch["producer_id"] and found.transaction is not None:
            found.transaction.transactional_id, found.transaction.state = row["transactional_id"], row["state"]


def _groups(topic: str, partition: int, path: str | Path) -> dict[str, int]:
    """Return each group's committed offset in the partition. An offset committed in a transaction counts only if the transaction
    committed."""
    groups: dict[str, int] = {}
    columns = (
        "partition",
        "offset",
        "group_id",
        "committed_topic",
        "committed_partition",
        "committed_offset",
        "transactional",
        "producer_id",
    )
    ends = sorted(
        (row["partition"], row["offset"], row["producer_id"], row["marker"])
        for row in _rows(
            "markers", path, Filters(topics=frozenset({"__consumer_offsets"})), ("partition", "offset", "producer_id", "marker")
        )
    )
    outcomes: dict[tuple[int, int], list[tuple[int, str]]] = defaultdict(list)
    for index, offset, producer_id, marker in ends:
        outcomes[index, producer_id].append((offset, marker))
    for row in _rows("offsets", path, Filters(), columns):
        if (row["committed_topic"], row["committed_partition"]) != (topic, partition):
            continue
        if row["transactional"]:
            ended = [marker for offset, marker in outcomes.get((row["partition"], row["producer_id"]), []) if offset > row["offset"]]
            if not ended or ended[0] != "commit":
                continue
        if row["committed_offset"] is None:
            groups.pop(row["group_id"], None)
        else:
            groups[row["group_id"]] = row["committed_offset"]
    return groups


def _rows(level: str, path: str | Path, filters: Filters, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for batch in read(level, [path], list(columns), filters):
        yield from batch.to_pylist()


def lines(found: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the facts about an offset as pairs of heading and text, for the terminal."""
    batch = found.batch
    count = f"{batch['record_count']} record{'' if batch['record_count'] == 1 else 's'}, {batch['size_bytes']} bytes"
    place = f"{batch['file']}:{batch['position']}"
    check = ", checksum WRONG" if batch["crc_ok"] is False else ""
    text = f"{count} at {place}, codec {batch['codec']}, leader epoch {batch['leader_epoch']}{check}"
    yield "batch", f"offsets {batch['base_offset']} to {batch['last_offset']}, {text}"
    if batch["producer_id"] < 0:
        yield "writer", "no producer id: the broker could not tell a retry from a new record"
    else:
        sequence = "" if found.sequence is None else f", sequence {found.sequence}"
        yield "writer", f"producer {batch['producer_id']}, epoch {batch['producer_epoch']}{sequence}"
    yield "time", f"{_time(batch['max_timestamp'])} ({'by the broker' if batch['log_append_time'] else 'by the producer'})"
    if found.record is not None:
        yield "key", _text(found.record["key"])
        yield "value", _text(found.record["value"])
        for header in found.record["headers"] or []:
            yield "header", f"{header['key']} = {_text(header['value'])}"
    if batch["control"]:
        yield "marker", f"{batch['marker'] or 'of a kind that is not known here'} of producer {batch['producer_id']}"
    if found.transaction is not None:
        yield "transaction", _transaction(found.transaction)
    visible, why = found.visible
    yield "read_committed", f"{'sees it' if visible else 'does not see it'}: {why}"
    if found.groups:
        passed = [
            f"{group} has passed it ({at})" if at > found.offset else f"{group} has not reached it ({at})"
            for group, at in sorted(found.groups.items())
        ]
        yield "groups", "; ".join(passed)


def _transaction(transaction: Transaction) -> str:
    ends = {"commit": "committed", "abort": "aborted"}
    end = "has no marker" if transaction.outcome is None else f"{ends[transaction.outcome]} at offset {transaction.ended}"
    known = ""
    if transaction.transactional_id is not None:
        known = f"; its coordinator knows it as {transaction.transactional_id!r}, now {transaction.state or 'forgotten'}"
    return f"began in this partition at offset {transaction.first_offset}, {end}{known}"


def _time(timestamp: int) -> str:
    if timestamp < 0:
        return "none"
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # a client that sends microseconds produces dates after the year 9999
        return f"{timestamp} ms, which no calendar has"


def _text(value: bytes | None) -> str:
    if value is None:
        return "null"
    text = value.decode(errors="backslashreplace")
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}… ({len(value)} bytes)"


def explain_command(
    place: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION@OFFSET")],
    path: Annotated[str, typer.Argument(metavar="DIR", help="A log directory of Ottla or of Apache Kafka, or kafka://host:port.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    command_config: CommandConfig = None,
) -> None:
    """Show which producer wrote a record, in which transaction, and whether a read_committed consumer receives it.

    For example: ottla explain orders-0@1234 data. Exit code: 0 explained, 2 no such record.
    """
    try:
        with sources([path], (), Wire(command_config)) as given:
            found = explain(place, given.paths[0])
    except (OffsetNotFound, OSError, ValueError) as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        raise typer.Exit(2) from error
    if as_json:
        visible, why = found.visible
        print(json.dumps({**asdict(found), "read_committed": visible, "why": why}, indent=2, default=_text))
        return
    print(place)
    for heading, text in lines(found):
        print(f"  {heading:<15} {printable_name(text)}")


if __name__ == "__main__":
    typer.run(explain_command)

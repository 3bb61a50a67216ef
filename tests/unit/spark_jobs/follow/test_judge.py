"""Judging a log piece by piece gives the same findings as judging it whole: on the whole corpus, however it is split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark_jobs import views
from ottla.spark_jobs.audit import PRODUCER_EXPIRATION_MS, TRANSACTION_TIMEOUT_MS, audit
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.engines.embedded import arrow_schema
from ottla.spark_jobs.follow.judge import CONTINUOUS, HANGING, judge
from ottla.spark_jobs.tables import read
from tests.support.kafka_logs import T0, PartitionWriter

SCHEMA = arrow_schema(views.RAW_BATCHES_NEED)
ARGS = {"expiration_ms": PRODUCER_EXPIRATION_MS, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS}
Reported = tuple[str, str, str, str]


@cache
def rows_of(root: Path) -> pa.Table:
    return pa.Table.from_batches(list(read("batches", [root], SCHEMA.names)), SCHEMA)


def followed(rows: pa.Table, size: int) -> tuple[list[Reported], list[int]]:
    """Judge the rows in pieces of `size` batches; return the findings (rule, severity, kind, place), and after each piece the rows
    remembered."""
    return reported_of([rows.slice(at, size) for at in range(0, rows.num_rows, size)])


def reported_of(pieces: list[pa.Table]) -> tuple[list[Reported], list[int]]:
    state = None
    reported: list[Reported] = []
    remembered = []
    for number, piece in enumerate(pieces, 1):
        judged = judge(piece, state, ARGS, caught_up=number == len(pieces))
        reported += [(f["rule"], f["severity"], f["kind"], place(f)) for f in judged.findings]
        state = judged.state
        remembered.append(state.num_rows)
    return reported, remembered


def place(f: dict[str, Any]) -> str:
    return f"{f['topic']}-{f['partition']}@{'?' if f['offset'] is None else f['offset']}"


def whole(roots: list[Path]) -> list[Counter[Reported]]:
    """Return each root's findings by the audit of the whole logs, in one run."""
    verdicts = audit(roots, engine="duckdb", samples=10_000, deep=False).directories
    found = [[finding for name in CONTINUOUS for finding in verdict.rules[name].samples] for verdict in verdicts]
    kept = [[f for f in each if f.severity != "info" and f.rule != HANGING] for each in found]
    return [Counter((f.rule, str(f.severity), f.kind, f.where) for f in each) for each in kept]


def without_hanging(reported: list[Reported]) -> Counter[Reported]:
    """Leave out the findings about hanging transactions, whose judgement needs `__transaction_state`, which is missing here."""
    return Counter(each for each in reported if each[0] != HANGING)


ALONE = [name for name, case in CASES.items() if not case.directories]


def written(directory: Path, names: Iterable[str]) -> dict[str, Path]:
    """Write the logs of these corpus cases, each to its directory."""
    for name in names:
        CASES[name].write(directory / name)
    return {name: directory / name for name in names}


def test_following_in_two_pieces_finds_what_the_whole_audit_finds(tmp_path: Path) -> None:
    """All logs are judged together, in two pieces. Their partitions are renumbered, because many logs have the same names."""
    roots = written(tmp_path, ALONE)
    tables = [moved(rows_of(root), number) for number, root in enumerate(roots.values())]
    first = pa.concat_tables([rows.slice(0, rows.num_rows // 2 + 1) for rows in tables])
    second = pa.concat_tables([rows.slice(rows.num_rows // 2 + 1) for rows in tables])
    reported = without_hanging(reported_of([first, second])[0])
    for number, (name, wanted) in enumerate(zip(roots, whole(list(roots.values())), strict=True)):
        extra = Counter({(*what, original(where)): n for (*what, where), n in reported.items() if number_of(where) == number})
        assert wanted - extra == Counter(), name
        extra -= wanted
        # A gap is reported when it is seen, although the missing batch may still arrive late.
        if extra:
            assert {rule for rule, *_ in extra} == {"sequence-gap"}, name
            assert any(rule == "sequence-order" for rule, *_ in wanted), name


PARTITIONS_A_LOG = 1_000


def moved(rows: pa.Table, number: int) -> pa.Table:
    """Return the rows with their partitions renumbered for the log `number` of many."""
    at = rows.schema.get_field_index("partition")
    field = rows.schema.field(at)
    return rows.set_column(at, field, pc.add(rows["partition"], number * PARTITIONS_A_LOG).cast(field.type))


def number_of(where: str) -> int:
    return int(where.rpartition("@")[0].rpartition("-")[2]) // PARTITIONS_A_LOG


def original(where: str) -> str:
    place, _, offset = where.rpartition("@")
    topic, _, partition = place.rpartition("-")
    return f"{topic}-{int(partition) % PARTITIONS_A_LOG}@{offset}"


def test_following_batch_by_batch_finds_what_the_whole_audit_finds(tmp_path: Path) -> None:
    roots = written(tmp_path, ("same_batch_twice", "gap", "overlapping_sequences", "sound"))
    for (name, root), wanted in zip(roots.items(), whole(list(roots.values())), strict=True):
        assert without_hanging(followed(rows_of(root), 1)[0]) == wanted, name


def test_followed_state_does_not_grow_with_the_log(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for i in range(200):
        log.data(5, pid=1 + i % 3, seq=i // 3 * 5)
    reported, remembered = followed(rows_of(tmp_path), 25)
    assert reported == []
    assert max(remembered[3:]) <= max(remembered[:3]) <= 3 * 6 + 8


def test_duplicate_of_a_batch_older_than_the_last_five_is_found(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for i in range(40):
        log.data(5, pid=1, seq=i * 5)
    log.data(5, pid=1, seq=10)
    assert followed(rows_of(tmp_path), 10)[0] == [("duplicate-sequence", "violation", "sequences overlap", "t-0@200")]


def test_expired_producer_is_dropped_from_the_state_but_an_open_transaction_is_not(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=2, seq=0, transactional=True)
    log.data(5, pid=3, seq=0, at=T0 + 2 * PRODUCER_EXPIRATION_MS)
    state = judge(rows_of(tmp_path), None, ARGS, caught_up=True).state
    assert {row["producer_id"] for row in state.to_pylist() if row["of_producer"]} == {2, 3}


def test_hanging_transaction_is_reported_once_and_only_when_caught_up(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5, pid=2, seq=0, transactional=True)
    log.data(5, at=T0 + 2 * TRANSACTION_TIMEOUT_MS)
    log.data(5, at=T0 + 2 * TRANSACTION_TIMEOUT_MS)
    rows = rows_of(tmp_path)
    first = judge(rows.slice(0, 2), None, ARGS, caught_up=False)
    second = judge(rows.slice(2, 1), first.state, ARGS, caught_up=True)
    third = judge(rows.slice(3, 0), second.state, ARGS, caught_up=True)
    assert [[f["rule"] for f in judged.findings] for judged in (first, second, third)] == [[], ["hanging-transaction"], []]

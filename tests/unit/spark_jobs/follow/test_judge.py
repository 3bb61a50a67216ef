"""Judging piece by piece says what judging the whole log says: over the whole corpus, however it is cut."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ottla.spark_jobs import views
from ottla.spark_jobs.audit import PRODUCER_EXPIRATION_MS, TRANSACTION_TIMEOUT_MS, audit
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.engines.embedded import arrow_schema
from ottla.spark_jobs.follow.judge import CONTINUOUS, HANGING, judge
from ottla.spark_jobs.tables import read
from tests.support.kafka_logs import T0, PartitionWriter

SCHEMA = arrow_schema(views.RAW_BATCHES_NEED)
ARGS = {"expiration_ms": PRODUCER_EXPIRATION_MS, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS}
Told = tuple[str, str, str, str]


@cache
def rows_of(root: Path) -> pa.Table:
    return pa.Table.from_batches(list(read("batches", [root], SCHEMA.names)), SCHEMA)


def followed(root: Path, size: int) -> tuple[list[Told], list[int]]:
    """What is told (rule, severity, kind, place) when `size` batches arrive at a time, and how many rows are remembered after each."""
    rows = rows_of(root)
    state = None
    told: list[Told] = []
    remembered = []
    for at in range(0, rows.num_rows, size):
        judged = judge(rows.slice(at, size), state, ARGS, caught_up=at + size >= rows.num_rows)
        told += [(f["rule"], f["severity"], f["kind"], place(f)) for f in judged.findings]
        state = judged.state
        remembered.append(state.num_rows)
    return told, remembered


def place(f: dict[str, Any]) -> str:
    return f"{f['topic']}-{f['partition']}@{'?' if f['offset'] is None else f['offset']}"


def whole(root: Path) -> Counter[Told]:
    (verdict,) = audit([root], engine="duckdb", samples=10_000, deep=False).directories
    found = [finding for name in CONTINUOUS for finding in verdict.rules[name].samples]
    return Counter((f.rule, str(f.severity), f.kind, f.where) for f in found if f.severity != "info" and f.rule != HANGING)


def without_hanging(told: list[Told]) -> Counter[Told]:
    """Whether a transaction hangs is the one judgement that lacks something here: what `__transaction_state` says."""
    return Counter(each for each in told if each[0] != HANGING)


ALONE = [name for name, case in CASES.items() if not case.directories]


@pytest.mark.parametrize("third", range(3))
def test_piece_by_piece_says_what_the_whole_log_says(tmp_path: Path, third: int) -> None:
    for name in ALONE[third::3]:
        CASES[name].write(tmp_path / name)
        size = max(1, rows_of(tmp_path / name).num_rows // 2 + 1)
        told, _ = followed(tmp_path / name, size)
        extra, wanted = without_hanging(told), whole(tmp_path / name)
        assert wanted - extra == Counter(), name
        extra -= wanted
        # A gap is told when it is seen, though what is missing may yet arrive late.
        if extra:
            assert {rule for rule, *_ in extra} == {"sequence-gap"}, name
            assert any(rule == "sequence-order" for rule, *_ in wanted), name


def test_batch_by_batch_the_small_logs_too(tmp_path: Path) -> None:
    for name in ("same_batch_twice", "gap", "overlapping_sequences", "sound"):
        CASES[name].write(tmp_path / name)
        assert without_hanging(followed(tmp_path / name, 1)[0]) == whole(tmp_path / name), name


def test_what_is_remembered_does_not_grow_with_the_log(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for i in range(200):
        log.data(5, pid=1 + i % 3, seq=i // 3 * 5)
    told, remembered = followed(tmp_path, 25)
    assert told == []
    assert max(remembered[3:]) <= max(remembered[:3]) <= 3 * 6 + 8


def test_an_old_duplicate_is_found_beyond_the_last_five_batches(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for i in range(40):
        log.data(5, pid=1, seq=i * 5)
    log.data(5, pid=1, seq=10)
    assert followed(tmp_path, 10)[0] == [("duplicate-sequence", "violation", "sequences overlap", "t-0@200")]


def test_a_producer_is_forgotten_after_its_expiration_but_not_an_open_transaction(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=2, seq=0, transactional=True)
    log.data(5, pid=3, seq=0, at=T0 + 2 * PRODUCER_EXPIRATION_MS)
    state = judge(rows_of(tmp_path), None, ARGS, caught_up=True).state
    assert {row["producer_id"] for row in state.to_pylist() if row["of_producer"]} == {2, 3}


def test_a_hanging_transaction_is_told_once_and_not_before_all_is_read(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5, pid=2, seq=0, transactional=True)
    log.data(5, at=T0 + 2 * TRANSACTION_TIMEOUT_MS)
    log.data(5, at=T0 + 2 * TRANSACTION_TIMEOUT_MS)
    rows = rows_of(tmp_path)
    first = judge(rows.slice(0, 2), None, ARGS, caught_up=False)
    second = judge(rows.slice(2, 1), first.state, ARGS, caught_up=True)
    third = judge(rows.slice(3, 0), second.state, ARGS, caught_up=True)
    assert [[f["rule"] for f in judged.findings] for judged in (first, second, third)] == [[], ["hanging-transaction"], []]

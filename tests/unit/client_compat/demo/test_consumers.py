"""The comparison of consumed with produced records must detect every kind of error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from client_compat.demo.consumers import Comparison
from client_compat.demo.flights import read_rows, write_rows
from client_compat.demo.ledger import Ledger
from client_compat.demo.run import RunResult
from client_compat.support.places import place

ROWS = [(b"UA", b'{"row":%d,"x":1}' % row) for row in range(9)]


@dataclass
class Consumed:
    partition: int
    offset: int
    key: bytes
    value: bytes


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger(len(ROWS))
    for row in range(len(ROWS)):
        ledger.acked_at[row] = place(0, row)
    return ledger


def result(ledger: Ledger, consumed: list[Consumed]) -> RunResult:
    comparison = Comparison(0, ROWS, ledger)
    for record in consumed:
        comparison.take(record)
    found = RunResult(idempotent=True, directory=Path(), rows=len(ROWS))
    found.fill(ledger)
    return found


def as_sent() -> list[Consumed]:
    return [Consumed(0, row, *ROWS[row]) for row in range(len(ROWS))]


def test_log_with_every_row_in_order_has_no_deviation(ledger: Ledger) -> None:
    found = result(ledger, as_sent())
    assert (found.consumed, found.lost, found.duplicates, found.altered, found.disordered, found.misplaced) == (9, 0, 0, 0, 0, 0)


def test_a_missing_record_is_lost(ledger: Ledger) -> None:
    found = result(ledger, as_sent()[:-1])
    assert (found.lost, found.misplaced) == (1, 1)


def test_a_copy_in_the_log_is_a_duplicate_but_a_redelivery_is_not(ledger: Ledger) -> None:
    copy = Consumed(0, 9, *ROWS[3])
    found = result(ledger, [*as_sent(), copy, copy])
    assert (found.duplicates, found.consumed, found.disordered) == (1, 10, 0)


@pytest.mark.parametrize(
    "spoilt", [Consumed(0, 4, b"AA", ROWS[4][1]), Consumed(0, 4, b"UA", b'{"row":4,"x":2}'), Consumed(0, 4, b"UA", b"")]
)
def test_another_key_or_value_is_an_alteration(ledger: Ledger, spoilt: Consumed) -> None:
    records = as_sent()
    records[4] = spoilt
    found = result(ledger, records)
    assert (found.altered, found.lost) == (1, 1)


def test_later_row_of_the_same_client_and_key_before_an_earlier_one_is_disordered(ledger: Ledger) -> None:
    records = as_sent()
    records[0].value, records[3].value = records[3].value, records[0].value
    assert result(ledger, records).disordered == 1


def test_rows_of_different_clients_have_no_order(ledger: Ledger) -> None:
    records = as_sent()
    records[0].value, records[1].value = records[1].value, records[0].value
    assert result(ledger, records).disordered == 0


def test_acknowledged_offset_with_another_row_is_misplaced(ledger: Ledger) -> None:
    ledger.acked_at[2] = place(0, 7)
    assert result(ledger, as_sent()).misplaced == 1


def test_unacknowledged_row_is_counted(ledger: Ledger) -> None:
    ledger.acked_at[2] = -1
    found = result(ledger, as_sent())
    assert (found.unacked, found.misplaced) == (1, 0)


def test_flights_are_json_with_their_row_number_and_keyed_by_carrier(tmp_path: Path) -> None:
    assert write_rows(tmp_path / "flights.tsv", 840) == 840
    rows = read_rows(tmp_path / "flights.tsv")
    assert rows[0][0] == b"UA"
    assert rows[0][1].startswith(b'{"row":0,"year":2013,')
    assert b'"dep_time":null' in rows[838][1], "the flight that never left"

"""The comparison of acknowledgements with the log: what `judge` must detect."""

from __future__ import annotations

from array import array

import pytest

from client_compat.support.places import GIVEN_UP, NOT_ACKED, REFUSED, SOMEWHERE, place
from client_compat.support.verdict import AckVerdict, compare


def judged(places: list[int], found: dict[int, list[int]]) -> AckVerdict:
    verdict = AckVerdict()
    compare(verdict, "client", array("q", places), found)
    return verdict


def test_every_value_once_at_its_offset_is_good() -> None:
    assert judged([place(0, 0), place(1, 0)], {0: [place(0, 0)], 1: [place(1, 0)]}).good


@pytest.mark.parametrize(
    ("places", "found", "what"),
    [
        ([place(0, 0)], {}, "lost"),
        ([place(0, 0)], {0: [place(0, 0), place(0, 1)]}, "doubled"),
        ([place(0, 0)], {0: [place(0, 1)]}, "misplaced"),
        ([SOMEWHERE], {}, "lost"),
        ([SOMEWHERE], {0: [place(0, 0), place(0, 1)]}, "doubled"),
        ([REFUSED], {}, "refused"),
        ([NOT_ACKED], {0: [place(0, 0)]}, "unanswered"),
    ],
)
def test_each_violation_is_counted_under_its_name(places: list[int], found: dict[int, list[int]], what: str) -> None:
    verdict = judged([place(0, 9), *places], {0: [place(0, 9)]} | {number + 1: copies for number, copies in found.items()})
    assert getattr(verdict, what) == 1
    assert not verdict.good


def test_violation_is_named_by_partition_and_offset() -> None:
    assert judged([place(3, 17)], {}).samples == ["client 0, acknowledged at partition 3 offset 17, is lost"]


def test_lost_value_is_reported_with_its_place() -> None:
    assert judged([place(0, 0), place(1, 5)], {0: [place(0, 0)]}).losses == [("client", 1, place(1, 5))]


def test_value_acknowledged_as_a_duplicate_may_be_anywhere() -> None:
    assert judged([place(0, 0), SOMEWHERE], {0: [place(0, 0)], 1: [place(5, 7)]}).good


def test_given_up_value_may_be_stored_once_or_not_at_all() -> None:
    verdict = judged([place(0, 0), GIVEN_UP, GIVEN_UP], {0: [place(0, 0)], 2: [place(0, 1)]})
    assert (verdict.good, verdict.given_up, verdict.acked) == (True, 2, 1)
    assert judged([place(0, 0), GIVEN_UP], {0: [place(0, 0)], 1: [place(0, 1), place(0, 2)]}).doubled == 1

"""The judge of the pipeline's output must detect every kind of error."""

from __future__ import annotations

from collections import Counter

from client_compat.demo_transactions.counting import Chunk, Increment, count, increments
from client_compat.demo_transactions.judge import Judgement, judge

FLIGHTS = [(b"UA", b'{"hour":5}'), (b"B6", b'{"hour":6}'), (b"UA", b'{"hour":5}'), (b"UA", b'{"hour":7}')]
DIRECT = Counter({key: 2 * n for key, n in count(FLIGHTS).items()})
SIZES = [4, 4]
FIRST, SECOND = (list(increments(Chunk(0, 0, FLIGHTS[:2]))), list(increments(Chunk(0, 2, FLIGHTS[2:]))))
OTHER = list(increments(Chunk(1, 0, FLIGHTS)))


def verdict(*parts: list[Increment]) -> Judgement:
    return judge([increment for part in parts for increment in part], DIRECT, SIZES)


def test_output_with_each_input_once_is_exact() -> None:
    found = verdict(OTHER, SECOND, FIRST)
    assert found.exact
    assert (found.once, found.surplus, found.wrong, found.increments) == (8, 0, 0, 7)


def test_a_range_written_twice_is_counted_more_than_once() -> None:
    found = verdict(FIRST, FIRST, SECOND, OTHER)
    assert not found.exact
    assert (found.once, found.more_than_once, found.never, found.surplus, found.wrong) == (6, 2, 0, 2, 2)


def test_overlapping_ranges_are_counted_by_input() -> None:
    overlapping = list(increments(Chunk(0, 1, FLIGHTS[1:4])))
    found = verdict(FIRST, overlapping, OTHER)
    assert (found.once, found.more_than_once, found.never) == (7, 1, 0)


def test_a_missing_range_was_never_counted() -> None:
    found = verdict(FIRST, OTHER)
    assert not found.exact
    assert (found.never, found.once, found.surplus) == (2, 6, -2)


def test_partial_range_is_torn() -> None:
    found = verdict(FIRST[:1], SECOND, OTHER)
    assert not found.exact
    assert (found.torn, found.never) == (1, 2)


def test_lost_range_is_not_compensated_by_a_duplicate_with_equal_counts() -> None:
    same = [(b"UA", b'{"hour":5}')] * 4
    once, again = (list(increments(Chunk(0, first, same[:2]))) for first in (0, 2))
    found = judge([*once, *once], count(same), [4])
    assert (found.wrong, found.surplus) == (0, 0)
    assert not found.exact
    assert judge([*once, *again], count(same), [4]).exact


def test_range_outside_the_input_is_torn_and_affects_no_other() -> None:
    strange = [Increment("UA", 5, 3, 7, 0, 3), Increment("UA", 5, 1, 0, 3, 9), Increment("UA", 5, 1, 0, 2, 2)]
    found = verdict(FIRST, SECOND, OTHER, strange)
    assert (found.torn, found.once) == (3, 8)
    assert not found.exact

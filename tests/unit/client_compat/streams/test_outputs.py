"""The judge of `make streams` detects a count that was written twice, one that is missing, and a word whose counts end early."""

from __future__ import annotations

from client_compat.streams.outputs import Counts
from client_compat.streams.run import Round, StreamsRun

KEY = ("by-airline", "UA")


def taken(*counts: int) -> Counts:
    found = Counts()
    for count in counts:
        found.take(KEY, count)
    return found


def test_updates_that_rise_by_one_are_right() -> None:
    found = taken(1, 2, 3)
    assert (found.updates, found.doubled, found.missed, found.wrong({KEY: 3}), found.samples) == (3, 0, 0, 0, [])


def test_repeated_count_is_doubled_and_does_not_lower_the_last() -> None:
    found = taken(1, 2, 2, 1, 3)
    assert (found.doubled, found.missed, found.last) == (2, 0, {KEY: 3})
    assert found.samples[0] == "by-airline UA: 2 came after 2"


def test_skipped_count_is_missed() -> None:
    found = taken(1, 4)
    assert (found.doubled, found.missed) == (0, 2)


def test_key_with_a_low_count_or_without_input_is_wrong() -> None:
    assert taken(1, 2).wrong({KEY: 3}) == 1
    assert taken(1).wrong({}) == 1
    assert taken().wrong({KEY: 1}) == 1


def test_a_run_is_good_only_with_right_rounds_no_open_transaction_and_a_clean_audit() -> None:
    right, wrong = (Round(1, True, True, 0.1, 1.0, 3, count, 0, 0, ()) for count in (0, 1))
    assert StreamsRun([right], audit_code=0).good
    assert not StreamsRun([], audit_code=0).good
    assert not StreamsRun([right, wrong], audit_code=0).good
    assert not StreamsRun([right], open=["t-0 from 5 on"], audit_code=0).good
    assert not StreamsRun([right], audit_code=1).good

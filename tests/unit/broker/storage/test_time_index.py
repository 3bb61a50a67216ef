from __future__ import annotations

from pathlib import Path

from ottla.broker.storage.files import FILES
from ottla.broker.storage.time_index import TimeIndex


def index() -> TimeIndex:
    made = TimeIndex(FILES, Path("unused"), 1000, fresh=True)
    for timestamp, offset in ((50, 1004), (60, 1009), (60, 1012), (55, 1013), (70, 1019)):
        made.maybe_append(timestamp, offset)
    return made


def test_entries_without_a_larger_timestamp_are_omitted() -> None:
    made = index()
    assert [made.entry(i) for i in range(len(made))] == [(50, 1004), (60, 1009), (70, 1019)]


def test_a_lookup_never_skips_a_record_with_the_timestamp() -> None:
    # The entry (60, 1009) says that a record of time 60 may be at 1009 or before, so the search for 60 begins after the entry for 50.
    found = {ts: index().lookup(ts) for ts in (0, 50, 51, 60, 61, 70, 71)}
    assert found == {0: 1000, 50: 1000, 51: 1004, 60: 1004, 61: 1009, 70: 1009, 71: 1019}


def test_truncating_is_by_offset() -> None:
    made = index()
    made.truncate_to(1009)
    assert made.last() == (50, 1004)


def test_the_index_is_full_with_one_slot_left_for_closing() -> None:
    assert index().is_full(48 + 11 - 12)
    assert not index().is_full(60)

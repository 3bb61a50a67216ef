"""Lookups in the offset index by offset and by position."""

from __future__ import annotations

from pathlib import Path

from ottla.broker.storage.files import FILES
from ottla.broker.storage.offset_index import OffsetIndex


def index() -> OffsetIndex:
    made = OffsetIndex(FILES, Path("unused"), 1000, fresh=True)
    for offset, position in ((1009, 4200), (1019, 8400), (1029, 12_600)):
        made.append(offset, position)
    return made


def test_a_lookup_returns_the_last_entry_at_or_below_the_offset() -> None:
    found = {offset: index().lookup(offset) for offset in (1000, 1008, 1009, 1018, 1019, 1029, 5000)}
    assert found == {1000: 0, 1008: 0, 1009: 4200, 1018: 4200, 1019: 8400, 1029: 12_600, 5000: 12_600}


def test_the_upper_bound_of_a_position_is_the_first_entry_there_or_later() -> None:
    found = {at: index().offset_at_or_after(at) for at in (0, 4200, 4201, 12_600, 12_601)}
    assert found == {0: 1009, 4200: 1009, 4201: 1019, 12_600: 1029, 12_601: None}


def test_it_is_full_when_the_file_would_exceed_its_size() -> None:
    assert not index().is_full(32)
    assert index().is_full(31)


def test_the_last_entry_is_absolute() -> None:
    assert index().last() == (1029, 12_600)
    assert OffsetIndex(FILES, Path("unused"), 0, fresh=True).last() is None

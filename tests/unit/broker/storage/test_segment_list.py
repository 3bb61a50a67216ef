from __future__ import annotations

from pathlib import Path

from ottla.broker.storage.files import FILES
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.segment import Segment
from ottla.broker.storage.segment_list import SegmentList


def segment(base: int, size: int = 10) -> Segment:
    return Segment(FILES, OpenFiles(1), Path("unused"), base, size=size, created_ms=0, fresh=True)


def test_the_segment_of_an_offset_is_the_last_starting_at_or_before_it() -> None:
    listed = SegmentList([segment(20), segment(5), segment(10)])
    assert {o: listed.from_offset(o)[0].base_offset for o in (0, 5, 9, 10, 19, 20, 99)} == {
        0: 5,
        5: 5,
        9: 5,
        10: 10,
        19: 10,
        20: 20,
        99: 20,
    }
    assert listed.base_offsets == (5, 10, 20)
    assert listed.active.base_offset == 20


def test_the_next_base_of_the_active_segment_is_none() -> None:
    listed = SegmentList([segment(5), segment(10)])
    assert [listed.next_base(s) for s in listed] == [10, None]


def test_new_segments_replace_the_old_ones() -> None:
    listed = SegmentList([segment(0), segment(10), segment(20)])
    listed.replace(list(listed)[:2], [segment(0, size=7)])
    assert (listed.base_offsets, listed.size_bytes, len(listed)) == ((0, 20), 17, 2)
    listed.add(segment(30))
    assert (listed.active.base_offset, listed.first.size, listed[1].base_offset) == (30, 7, 20)

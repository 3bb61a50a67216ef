from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.groups.group_records import OffsetCommitValue
from ottla.broker.groups.offsets import Offsets, OffsetTable

DAY_MS = 24 * 60 * 60 * 1000
T, RECREATED = b"t" * 16, b"r" * 16


def value(offset: int, **changes: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, **changes)  # type: ignore[arg-type]  # the fields are named by the tests


def committed(offsets: Offsets) -> int | None:
    found = offsets.committed.get("g", "t", 0)
    return None if found is None else found.value.offset


@pytest.fixture
def offsets() -> Offsets:
    return Offsets()


def test_the_latest_commit_counts(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(5), record_offset=0)
    offsets.put("g", "t", 0, value(3), record_offset=1)
    assert committed(offsets) == 3


def test_an_offset_of_an_open_transaction_is_pending_and_invisible(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(5), record_offset=0, producer_id=7)
    assert committed(offsets) is None
    assert offsets.has_pending("g", "t", 0)
    assert not offsets.has_pending("g", "t", 1)
    assert offsets.has_open_transaction("g")


def test_a_commit_marker_makes_pending_offsets_visible(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(5), record_offset=0, producer_id=7)
    offsets.end_transaction(7, commit=True)
    assert committed(offsets) == 5
    assert not offsets.has_open_transaction("g")


def test_an_abort_marker_discards_pending_offsets(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(1), record_offset=0)
    offsets.put("g", "t", 0, value(5), record_offset=1, producer_id=7)
    offsets.end_transaction(7, commit=False)
    assert committed(offsets) == 1
    assert not offsets.has_pending("g", "t", 0)


def test_a_plain_commit_after_the_transactional_one_wins_even_if_the_marker_comes_last(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(5), record_offset=0, producer_id=7)
    offsets.put("g", "t", 0, value(9), record_offset=1)
    offsets.end_transaction(7, commit=True)
    assert committed(offsets) == 9


def test_marker_completes_only_its_own_producers_offsets(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(5), record_offset=0, producer_id=7)
    offsets.put("g", "t", 1, value(6), record_offset=1, producer_id=8)
    offsets.end_transaction(7, commit=True)
    assert offsets.has_pending("g", "t", 1)


def test_a_marker_of_an_unknown_producer_changes_nothing(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(5), record_offset=0)
    offsets.end_transaction(99, commit=True)
    assert committed(offsets) == 5


def test_a_tombstone_removes_committed_and_pending_offsets(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(1), record_offset=0)
    offsets.put("g", "t", 0, value(5), record_offset=1, producer_id=7)
    offsets.remove("g", "t", 0)
    offsets.end_transaction(7, commit=True)
    assert committed(offsets) is None
    assert offsets.keys_of("g") == []


def test_a_look_up_does_not_search_every_open_transaction(offsets: Offsets, monkeypatch: pytest.MonkeyPatch) -> None:
    for producer_id in range(100):
        offsets.put("g", "t", producer_id % 2, value(1), record_offset=producer_id, producer_id=producer_id)
    searched = []
    for name in ("get", "of_group", "remove", "__contains__"):
        original = getattr(OffsetTable, name)
        monkeypatch.setattr(OffsetTable, name, lambda *args, original=original: searched.append(args) or original(*args))
    assert offsets.has_pending("g", "t", 0)
    assert not offsets.has_pending("g", "u", 0)
    assert offsets.has_open_transaction("g")
    assert not offsets.has_open_transaction("h")
    assert offsets.keys_of("g") == [("t", 0), ("t", 1)]
    offsets.remove("g", "u", 0)
    assert len(searched) < 10


def test_a_partition_is_unstable_until_its_last_transaction_ends(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(1), record_offset=0, producer_id=7)
    offsets.put("g", "t", 0, value(2), record_offset=1, producer_id=8)
    offsets.put("g", "t", 0, value(3), record_offset=2, producer_id=7)
    offsets.end_transaction(7, commit=True)
    assert offsets.has_pending("g", "t", 0)
    offsets.end_transaction(8, commit=True)
    assert not offsets.has_open_transaction("g")
    assert committed(offsets) == 3


def test_tombstone_of_an_uncommitted_offset_changes_nothing(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(1), record_offset=0)
    offsets.remove("g", "t", 1)
    offsets.remove("g", "u", 0)
    offsets.remove("h", "t", 0)
    assert committed(offsets) == 1


def test_a_group_without_offsets_leaves_no_state(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(1), record_offset=0)
    offsets.remove("g", "t", 0)
    assert offsets.committed.groups() == []
    assert "g" not in offsets.committed


def test_a_committed_and_pending_key_is_listed_once(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(1), record_offset=0)
    offsets.put("g", "t", 0, value(2), record_offset=1, producer_id=7)
    offsets.put("h", "t", 4, value(2), record_offset=2, producer_id=7)
    assert offsets.keys_of("g") == [("t", 0)]
    assert sorted(offsets.keys_of_topic("t", T)) == [("g", 0), ("h", 4)]


def test_offsets_of_a_topics_recreation_are_not_those_of_the_deleted_topic(offsets: Offsets) -> None:
    offsets.put("g", "t", 0, value(1), record_offset=0)
    offsets.put("g", "t", 1, replace(value(2), topic_id=T), record_offset=1)
    offsets.put("g", "t", 2, replace(value(3), topic_id=RECREATED), record_offset=2)
    offsets.put("h", "t", 3, replace(value(3), topic_id=RECREATED), record_offset=2, producer_id=7)
    assert sorted(offsets.keys_of_topic("t", T)) == [("g", 0), ("g", 1)]


def test_the_offsets_of_a_topic_are_found_without_looking_at_those_of_others(offsets: Offsets, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets.put("g", "t", 0, value(1), record_offset=0)
    offsets.put("g", "u", 0, value(1), record_offset=1, producer_id=7)
    monkeypatch.setattr(OffsetTable, "__iter__", lambda _: pytest.fail("the offsets of all topics are looked at"))
    assert (offsets.keys_of_topic("t", T), offsets.keys_of_topic("u", T)) == ([("g", 0)], [("g", 0)])


def test_an_offset_expires_exactly_after_the_retention(offsets: Offsets) -> None:
    assert not offsets.is_expired(value(1), base_ms=1_000, retention_ms=DAY_MS, now_ms=1_000 + DAY_MS - 1)
    assert offsets.is_expired(value(1), base_ms=1_000, retention_ms=DAY_MS, now_ms=1_000 + DAY_MS)


def test_an_offset_with_an_expiry_ignores_the_retention(offsets: Offsets) -> None:
    own = value(1, expire_timestamp=5_000)
    assert not offsets.is_expired(own, base_ms=0, retention_ms=1, now_ms=4_999)
    assert offsets.is_expired(own, base_ms=4_999, retention_ms=DAY_MS, now_ms=5_000)

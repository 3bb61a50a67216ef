"""The walker of records; each test runs on the compiled and the interpreted form."""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any

import pytest

from ottla.broker.core import limits
from ottla.protocol.records.batch import HEADER_BYTES
from ottla.protocol.records.errors import InvalidRecord
from ottla.protocol.records.record import SimpleRecord, build_batch, encode_record
from tests.support.walkers import INTERPRETED, WALKERS, compiler, is_compiled


@pytest.fixture(params=list(WALKERS))
def walk(request: pytest.FixtureRequest) -> ModuleType:
    return WALKERS[request.param]


def section(*records: SimpleRecord) -> bytes:
    return build_batch(records)[HEADER_BYTES:]


def framed(body: bytes) -> bytes:
    """Return a record with this body of less than 64 bytes, preceded by its length."""
    return bytes([len(body) * 2]) + body


PLAIN = encode_record(0, 0, b"k", b"v")


def test_installed_walker_is_compiled_if_there_is_a_compiler() -> None:
    assert compiler() is None or is_compiled(WALKERS["installed"]), "the walker was not compiled: run 'python setup.py build_ext --inplace'"
    assert not is_compiled(INTERPRETED)


def test_a_scan_finds_the_newest_record_and_the_oldest_timestamp(walk: ModuleType) -> None:
    records = [SimpleRecord(b"a", b"1", ts) for ts in (50, 40, 70, 70, 60)]
    found = walk.scan(section(*records), 5, 50)
    assert (found.max_timestamp, found.index_of_max_timestamp, found.offset_of_max_timestamp, found.min_timestamp) == (70, 2, 2, 40)
    assert (found.first_null_key, found.sequential, found.first_bad_index, found.reason) == (-1, True, -1, "")


def test_records_without_a_timestamp_are_ignored_for_the_oldest_timestamp(walk: ModuleType) -> None:
    assert walk.scan(section(SimpleRecord(None, None), SimpleRecord(None, None, 9)), 2, -1)[:4] == (9, 1, 1, 9)
    assert walk.scan(section(SimpleRecord(None, None)), 1, -1)[:4] == (-1, 0, 0, -1)


def test_first_null_key_is_reported_and_an_empty_key_is_not_null(walk: ModuleType) -> None:
    records = section(SimpleRecord(b"", b""), SimpleRecord(b"x", None), SimpleRecord(None, b""), SimpleRecord(None, b""))
    assert walk.scan(records, 4, -1).first_null_key == 2


def test_offset_deltas_that_skip_or_repeat_are_not_sequential(walk: ModuleType) -> None:
    skipping = encode_record(0, 0, None, None) + encode_record(2, 5, None, None)
    found = walk.scan(skipping, 2, 100)
    assert (found.sequential, found.offset_of_max_timestamp, found.index_of_max_timestamp) == (False, 2, 1)
    assert not walk.scan(PLAIN + PLAIN, 2, 0).sequential


BAD = {
    "length varint cut off": (b"\x80", "length is unreadable"),
    "length varint of six bytes": (b"\x80\x80\x80\x80\x80\x00" + PLAIN, "length is unreadable"),
    "negative length": (b"\x01" + PLAIN, "length is unreadable, negative"),
    "length beyond the batch": (bytes([PLAIN[0] + 2]) + PLAIN[1:], "exceeds the batch"),
    "empty record": (framed(b""), "varint"),
    "only attributes": (framed(b"\0"), "varint"),
    "timestamp delta of eleven bytes": (framed(b"\0" + b"\x80" * 10 + b"\0" + b"\0\x01\x01\0"), "varint"),
    "offset delta of six bytes": (framed(b"\0\0" + b"\x80" * 5 + b"\0" + b"\x01\x01\0"), "varint"),
    "key beyond the record": (framed(b"\0\0\0\x7e\x01\0"), "key"),
    "key one byte beyond the record": (framed(b"\0\0\0\x04a"), "key"),
    "value beyond the record": (framed(b"\0\0\0\x01\x7e\0"), "value"),
    "header count missing": (framed(b"\0\0\0\x01\x01"), "varint"),
    "negative header count": (framed(b"\0\0\0\x01\x01\x01"), "header count"),
    "header count beyond the record": (framed(b"\0\0\0\x01\x01\x08\0\x01"), "header count"),
    "null header key": (framed(b"\0\0\0\x01\x01\x02\x01\x01"), "header's key"),
    "header key beyond the record": (framed(b"\0\0\0\x01\x01\x02\x7e\x01"), "header's key"),
    "header value beyond the record": (framed(b"\0\0\0\x01\x01\x02\0\x7e"), "header's value"),
    "header value missing": (framed(b"\0\0\0\x01\x01\x02\0"), "varint"),
    "bytes behind the last header": (framed(b"\0\0\0\x01\x01\0\0"), "length of its fields"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_record_is_reported_by_index_with_its_reason(walk: ModuleType, name: str) -> None:
    data, reason = BAD[name]
    found = walk.scan(PLAIN + data, 2, 0)
    assert (found.first_bad_index, reason in found.reason) == (1, True), found
    with pytest.raises(InvalidRecord, match="record 1: "):
        walk.columns(PLAIN + data + bytes(14), 2, 0, 0)


def test_missing_records_and_left_over_bytes_are_bad(walk: ModuleType) -> None:
    assert "fewer records" in walk.scan(PLAIN, 2, 0).reason
    assert walk.scan(PLAIN, 2, 0).first_bad_index == 1
    assert "left over" in walk.scan(PLAIN + PLAIN, 1, 0).reason
    assert "left over" in walk.scan(PLAIN, 0, 0).reason
    with pytest.raises(InvalidRecord, match="left over"):
        walk.columns(PLAIN + PLAIN, 1, 0, 0)


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1), (2**62, 2**62)])
def test_a_timestamp_outside_of_64_bits_is_bad(walk: ModuleType, base: int, delta: int) -> None:
    data = encode_record(0, delta, None, None)
    assert "64 bits" in walk.scan(data, 1, base).reason
    with pytest.raises(InvalidRecord, match="64 bits"):
        walk.columns(data, 1, 0, base)


@pytest.mark.parametrize("delta", [2**63 - 1, -(2**63), 63, 64, -64, -65, 2**31, -(2**31) - 1])
def test_timestamp_deltas_of_all_widths_are_read(walk: ModuleType, delta: int) -> None:
    assert walk.scan(encode_record(0, delta, None, None), 1, 0).max_timestamp == delta


def test_excess_bits_of_a_varints_last_byte_are_dropped_as_in_java(walk: ModuleType) -> None:
    found = walk.columns(framed(b"\0" + b"\xff" * 9 + b"\x7f" + b"\xff" * 4 + b"\x7f" + b"\x01\x01\0"), 1, 0, 0)
    assert (list(found.timestamps), list(found.offsets)) == ([-(2**63)], [-(2**31)])


def test_an_offset_outside_of_64_bits_is_bad(walk: ModuleType) -> None:
    with pytest.raises(InvalidRecord, match="64 bits"):
        walk.columns(encode_record(1, 0, None, None), 1, 2**63 - 1, 0)


def test_any_negative_key_or_value_length_is_null_as_in_kafka(walk: ModuleType) -> None:
    data = framed(b"\0\0\0\x03\x05\0")
    assert walk.scan(data, 1, 0).first_null_key == 0
    found = walk.columns(data, 1, 0, 0)
    assert (list(found.key_lengths), list(found.value_lengths)) == ([-1], [-1])


def test_columns_contain_offsets_timestamps_and_positions_of_keys_values_and_headers(walk: ModuleType) -> None:
    records = [SimpleRecord(b"key", b"value", 100, [("h", b"x"), ("i", None)]), SimpleRecord(None, b"", 90), SimpleRecord(b"", None, 110)]
    data = section(*records)
    found = walk.columns(data, 3, 1000, 100)
    assert list(found.offsets) == [1000, 1001, 1002]
    assert list(found.timestamps) == [100, 90, 110]
    assert list(found.header_counts) == [2, 0, 0]
    keys = [None if n < 0 else data[at : at + n] for at, n in zip(found.key_starts, found.key_lengths, strict=True)]
    values = [None if n < 0 else data[at : at + n] for at, n in zip(found.value_starts, found.value_lengths, strict=True)]
    assert [data[a:b] for a, b in zip(found.record_starts, [*found.record_starts[1:], len(data)], strict=True)] == [
        encode_record(i, r.timestamp - 100, r.key, r.value, r.headers) for i, r in enumerate(records)
    ]
    assert keys == [b"key", None, b""]
    assert values == [b"value", b"", None]
    assert [column.typecode for column in found] == ["q", "q"] + ["i"] * 7


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_impossible_record_count_allocates_no_memory(walk: ModuleType, count: int) -> None:
    with pytest.raises(InvalidRecord, match="cannot be in"):
        walk.columns(PLAIN, count, 0, 0)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_walked(walk: ModuleType, kind: type) -> None:
    assert walk.scan(kind(PLAIN), 1, 0).first_bad_index == -1
    assert list(walk.columns(kind(PLAIN), 1, 7, 0).offsets) == [7]


def filler(walk: ModuleType, rows: int, size: int, *, values: bool = True) -> tuple[Any, dict[str, Any]]:
    """Return a filler of columns and its buffers by name."""
    ends = array("i", bytes(4 * (rows + 1)))
    buffers = {
        "offsets": array("q", bytes(8 * rows)),
        "timestamps": array("q", bytes(8 * rows)),
        "key_ends": ends,
        "keys": bytearray(size),
        "key_present": bytearray(rows),
        "value_ends": ends[:] if values else array("i"),
        "values": bytearray(size if values else 0),
        "value_present": bytearray(rows if values else 0),
    }
    return walk.Filler(**buffers), buffers


def test_successive_batches_fill_the_columns_in_order(walk: ModuleType) -> None:
    first = section(SimpleRecord(b"a", b"11", 50), SimpleRecord(None, b"", 40))
    second = section(SimpleRecord(b"", None, 9))
    fill, columns = filler(walk, 3, len(first) + len(second))
    assert (fill.add(first, 2, 100, 50), fill.add(second, 1, 200, 9)) == ("", "")
    assert (list(columns["offsets"]), list(columns["timestamps"])) == ([100, 101, 200], [50, 40, 9])
    assert (list(columns["key_ends"]), bytes(columns["keys"][:1]), list(columns["key_present"])) == ([0, 1, 1, 1], b"a", [1, 0, 1])
    assert (list(columns["value_ends"]), bytes(columns["values"][:2]), list(columns["value_present"])) == ([0, 2, 2, 2], b"11", [1, 1, 0])
    assert (fill.rows, fill.key_at, fill.value_at) == (3, 1, 2)


def test_bad_batch_leaves_no_rows_in_the_columns(walk: ModuleType) -> None:
    fill, columns = filler(walk, 4, 100)
    assert fill.add(PLAIN + PLAIN[:-1], 2, 0, 0)
    assert fill.add(PLAIN, 1, 7, 0) == ""
    assert (fill.rows, columns["offsets"][0], list(columns["key_ends"][:2])) == (1, 7, [0, 1])


def test_unrequested_columns_need_no_buffers(walk: ModuleType) -> None:
    fill, columns = filler(walk, 1, 100, values=False)
    assert fill.add(PLAIN, 1, 0, 0) == ""
    assert (fill.rows, bytes(columns["keys"][:1]), fill.value_at) == (1, b"k", 0)


def test_too_small_buffers_are_rejected_before_anything_is_written(walk: ModuleType) -> None:
    for rows, size in ((1, 100), (2, len(PLAIN))):
        fill, _ = filler(walk, rows, size)
        with pytest.raises(ValueError, match="no room"):
            fill.add(PLAIN + PLAIN, 2, 0, 0)
    fill, _ = filler(walk, 1, 100)
    with pytest.raises(InvalidRecord, match="cannot be in"):
        fill.add(PLAIN, 10**9, 0, 0)


def test_renumbering_gives_consecutive_offset_deltas_and_changes_nothing_else(walk: ModuleType) -> None:
    records = [(5, 2**63 - 1, None, b"x"), (700, -(2**63), b"k" * 300, None), (-(2**31), 0, b"", b""), (2**31 - 1, 64, b"a", b"b" * 9000)]
    headers = [("h", None), ("", b"v")]
    before = b"".join(encode_record(*record, headers) for record in records)
    after = b"".join(encode_record(index, *record[1:], headers) for index, record in enumerate(records))
    assert bytes(walk.renumber(before, len(records))) == after


def test_renumbered_records_can_be_larger_than_before(walk: ModuleType) -> None:
    count = 20_000
    renumbered = bytes(walk.renumber(encode_record(0, 0, None, bytes(57)) * count, count))
    assert renumbered == b"".join(encode_record(index, 0, None, bytes(57)) for index in range(count))


@pytest.mark.parametrize("name", list(BAD))
def test_bad_records_are_not_renumbered(walk: ModuleType, name: str) -> None:
    with pytest.raises(InvalidRecord, match="record 1: "):
        walk.renumber(PLAIN + BAD[name][0] + bytes(14), 2)


@pytest.mark.parametrize("count", [-1, 3, 2**31 - 1])
def test_impossible_record_count_is_rejected_before_memory_is_allocated(walk: ModuleType, count: int) -> None:
    with pytest.raises(InvalidRecord, match="cannot be in"):
        walk.renumber(PLAIN * 2, count)


def test_first_record_in_a_time_range_at_or_after_an_offset_is_found(walk: ModuleType) -> None:
    data = b"".join(encode_record(offset, delta, None, None) for offset, delta in [(3, 0), (5, 20), (6, 10), (9, 20)])
    assert walk.find_timestamp(data, 4, 100, 0, 130, 0) == (3, 100)
    assert walk.find_timestamp(data, 4, 100, 101, 130, 0) == (5, 120)
    assert walk.find_timestamp(data, 4, 100, 105, 130, 6) == (6, 110)
    assert walk.find_timestamp(data, 4, 100, 121, 130, 0) is None
    assert walk.find_timestamp(data, 4, 100, 0, 119, 5) == (6, 110)
    with pytest.raises(InvalidRecord, match="record 4"):
        walk.find_timestamp(data, 5, 100, 500, 501, 0)


def test_other_threads_run_between_headers_of_one_record_and_of_several(walk: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of 65 KB, compressed, can have 33 million headers; compiled code releases the GIL by `sleep(0)`."""
    releases: list[float] = []
    monkeypatch.setattr(walk, "sleep", releases.append)
    for headers_of_each in ([1_200_000], [400_000] * 3):
        records = b"".join(encode_record(0, i, None, b"", [("", b"")] * count) for i, count in enumerate(headers_of_each))
        releases.clear()
        assert walk.scan(records, len(headers_of_each), 0).first_bad_index == -1
        assert releases, headers_of_each


def test_a_section_that_the_event_loop_checks_does_not_give_up_the_loops_turn(walk: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that gets the GIL may keep it for 5 ms."""
    monkeypatch.delattr(walk, "sleep")
    record = encode_record(0, 0, None, b"", [("", None)] * (limits.CHECKED_AT_ONCE_BYTES // 2 - 8))
    assert limits.CHECKED_AT_ONCE_BYTES - 8 <= len(record) <= limits.CHECKED_AT_ONCE_BYTES
    assert walk.scan(record, 1, 0).first_bad_index == -1


def test_headers_of_several_sections_are_copied_in_order(walk: ModuleType) -> None:
    first = section(SimpleRecord(b"k", b"v", 1, [("a", b"12"), ("", None)]), SimpleRecord(None, None, 1))
    second = section(SimpleRecord(None, b"v", 1, [("bcd", b"")]))
    found = walk.header_columns([first, memoryview(second)], [2, 1])
    assert list(found.record_ends) == [0, 2, 2, 3]
    assert (list(found.key_ends), found.keys[:4]) == ([0, 1, 1, 4], b"abcd")
    assert (list(found.value_ends), found.values[:2], list(found.value_present)) == ([0, 2, 2, 2], b"12", [1, 0, 1])


@pytest.mark.parametrize(("count", "reason"), [(-1, "cannot be in"), (2**31 - 1, "cannot be in"), (2, "fewer records")])
def test_headers_of_an_invalid_section_are_not_copied(walk: ModuleType, count: int, reason: str) -> None:
    with pytest.raises(InvalidRecord, match=reason):
        walk.header_columns([PLAIN, section(SimpleRecord(b"key", b"a longer value", 1))], [1, count])

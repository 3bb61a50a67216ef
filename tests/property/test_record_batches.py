"""Batches of any records come back as they were; any bytes give records or a `RecordsError`; both forms of the walker always agree."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.records import walk
from ottla.protocol.records.batch import HEADER_BYTES, crc_ok, pack_header, read_header, split_batches, stamp
from ottla.protocol.records.compression import Codec, decompress
from ottla.protocol.records.control import parse_marker
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.records.record import SimpleRecord, build_batch, encode_record, iter_records
from tests.support.walkers import INTERPRETED

BYTES = st.binary(max_size=200)
TIMESTAMPS = st.one_of(st.just(-1), st.integers(0, 2**45))
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | BYTES), max_size=3)
RECORDS = st.builds(SimpleRecord, st.none() | BYTES, st.none() | BYTES, TIMESTAMPS, HEADERS)
CODECS = st.sampled_from(Codec)
INT64 = st.integers(-(2**63), 2**63 - 1)
OUTPUT_MAX = 1 << 20


def outcome(call: Any, *arguments: Any) -> Any:
    """Return the result as plain values, or the message of a RecordsError; any other exception is a failure."""
    try:
        found = call(*arguments)
    except RecordsError as error:
        return str(error)
    return [list(column) for column in found] if isinstance(found, walk.Columns | INTERPRETED.Columns) else tuple(found)


@given(st.lists(RECORDS, min_size=1, max_size=12), CODECS, st.integers(0, 2**62))
def test_records_come_back_as_they_were(records: list[SimpleRecord], codec: Codec, base_offset: int) -> None:
    head, tail = stamp(build_batch(records, codec=codec), base_offset, 1)
    batch = head + bytes(tail)
    assert crc_ok(batch, read_header(batch))
    assert [(r.offset, r.key, r.value, r.timestamp, list(r.headers)) for r in iter_records(batch)] == [
        (base_offset + i, r.key, r.value, r.timestamp, list(r.headers)) for i, r in enumerate(records)
    ]
    assert read_header(batch).max_timestamp == max(r.timestamp for r in records)


@given(st.lists(RECORDS, min_size=1, max_size=6), CODECS, st.data())
def test_a_damaged_batch_gives_records_or_the_one_error(records: list[SimpleRecord], codec: Codec, data: st.DataObject) -> None:
    batch = bytearray(build_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    with suppress(RecordsError):
        given, header = len(list(iter_records(batch, OUTPUT_MAX))), read_header(batch)
        assert given == header.record_count or header.base_offset < 0, "all, but for those that have no offset"
    with suppress(RecordsError):
        split = list(split_batches(batch))
        assert [pos for pos, _ in split] == [sum(header.size_bytes for _, header in split[:at]) for at in range(len(split))]
        assert sum(header.size_bytes for _, header in split) <= len(batch)
    with suppress(RecordsError):
        parse_marker(batch)
        assert read_header(batch).record_count == 1


@given(st.binary(max_size=400), CODECS)
def test_any_bytes_decompress_to_at_most_the_bound_or_are_the_one_error(data: bytes, codec: Codec) -> None:
    try:
        assert len(decompress(codec, data, 1000)) <= 1000
    except RecordsError:
        return


@given(st.binary(max_size=120), st.integers(-2, 20), INT64)
def test_both_walkers_agree_on_any_bytes(data: bytes, count: int, base: int) -> None:
    assert outcome(walk.scan, data, count, base) == outcome(INTERPRETED.scan, data, count, base)
    assert outcome(walk.columns, data, count, base // 2, base) == outcome(INTERPRETED.columns, data, count, base // 2, base)


@settings(max_examples=50)
@given(st.lists(RECORDS, min_size=1, max_size=8), st.integers(0, 2**32), INT64)
def test_both_walkers_agree_on_damaged_records(records: list[SimpleRecord], seed: int, base: int) -> None:
    section = bytearray(build_batch(records)[HEADER_BYTES:])
    rng = random.Random(seed)
    for _ in range(100):
        at = rng.randrange(len(section))
        before, section[at] = section[at], rng.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
        arguments = (bytes(section), len(records), base)
        assert outcome(walk.scan, *arguments) == outcome(INTERPRETED.scan, *arguments), seed
        if rng.random() < 0.5:
            section[at] = before


@given(st.integers(-(2**31), 2**31 - 1), INT64)
def test_deltas_of_every_width_are_read_as_written(offset_delta: int, timestamp_delta: int) -> None:
    section = encode_record(offset_delta, timestamp_delta, b"k", None)
    for walker in (walk, INTERPRETED):
        found = walker.columns(section, 1, 0, 0)
        assert (list(found.offsets), list(found.timestamps)) == ([offset_delta], [timestamp_delta])
    header = read_header(build_batch([SimpleRecord(None, None)]))._replace(base_timestamp=0)
    [record] = iter_records(pack_header(header, section) + section)
    assert (record.offset_delta, record.timestamp_delta) == (offset_delta, timestamp_delta)

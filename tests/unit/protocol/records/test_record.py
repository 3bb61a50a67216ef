from __future__ import annotations

import pytest

from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader, crc_ok, pack_header, read_header
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.errors import BatchTooLarge, CorruptBatch, InvalidRecord
from ottla.protocol.records.record import Record, SimpleRecord, build_batch, encode_record, iter_records

RECORDS = [
    SimpleRecord(b"k", b"value", 1000, [("h", b"1"), ("h", None), ("naïve", b"")]),
    SimpleRecord(None, b"", 900),
    SimpleRecord(b"", None, 1100),
]


def packed(header: BatchHeader, section: bytes) -> bytes:
    return pack_header(header, section) + section


@pytest.mark.parametrize("codec", list(Codec))
def test_built_batch_is_read_back_with_offsets_and_timestamps(codec: Codec) -> None:
    batch = build_batch(RECORDS, base_offset=70, codec=codec)
    assert crc_ok(batch, read_header(batch))
    assert list(iter_records(batch)) == [
        Record(0, 0, b"k", b"value", (("h", b"1"), ("h", None), ("naïve", b"")), 70, 1000),
        Record(1, -100, None, b"", (), 71, 900),
        Record(2, 100, b"", None, (), 72, 1100),
    ]


def test_negative_offsets_are_read_as_they_are() -> None:
    batch = build_batch(RECORDS, base_offset=-2)
    assert [(record.offset, record.key) for record in iter_records(batch)] == [(-2, b"k"), (-1, None), (0, b"")]
    assert [record.offset for record in iter_records(batch, from_offset=-1)] == [-1, 0]


def test_the_header_describes_its_records() -> None:
    header = read_header(build_batch(RECORDS, producer_id=5, producer_epoch=1, base_sequence=9, transactional=True))
    assert (header.base_timestamp, header.max_timestamp, header.record_count, header.last_offset_delta) == (1000, 1100, 3, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (5, 1, 9, True)


def test_the_bytes_of_one_record_are_those_of_kafkas_schema() -> None:
    assert encode_record(1, 300, b"ab", None, [("c", b"d")]).hex() == "1a00d80402046162010202630264"
    assert encode_record(0, 0, None, None).hex() == "0c000000010100"


def test_a_batch_with_append_time_shows_it_for_every_record() -> None:
    batch = build_batch(RECORDS, log_append_time=5555)
    assert read_header(batch).is_log_append_time
    assert [record.timestamp for record in iter_records(batch)] == [5555] * 3


def test_no_records_are_no_batch() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def test_an_empty_batch_that_compaction_left_has_no_records() -> None:
    header = read_header(build_batch(RECORDS))._replace(record_count=0)
    assert list(iter_records(packed(header, b""))) == []


def test_decompression_stops_at_the_callers_limit() -> None:
    batch = build_batch([SimpleRecord(None, bytes(100_000))], codec=Codec.ZSTD)
    with pytest.raises(BatchTooLarge, match="more than 99999 bytes"):
        list(iter_records(batch, 99_999))


def test_a_wrong_record_count_is_refused_before_the_first_record() -> None:
    batch = build_batch(RECORDS)
    for count in (2, 4, -1, 2**31 - 1):
        with pytest.raises(InvalidRecord):
            next(iter_records(packed(read_header(batch)._replace(record_count=count), batch[HEADER_BYTES:])))


def test_a_batch_cut_short_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        list(iter_records(build_batch(RECORDS)[:-1]))


def test_bytes_of_a_header_name_that_are_not_utf8_survive_a_rewrite() -> None:
    raw = encode_record(0, 0, None, None, [("a\udcffb", b"")])
    assert b"a\xffb" in raw
    batch = packed(read_header(build_batch(RECORDS[:1])), raw)
    record = next(iter_records(batch))
    assert encode_record(0, 0, record.key, record.value, record.headers) == raw

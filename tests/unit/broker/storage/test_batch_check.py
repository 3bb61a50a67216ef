"""Validation of produced batches, in Kafka's order and with its errors, and the changes to valid ones."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from ottla.broker.core import limits
from ottla.broker.core.log_config import INT64_MAX, LOG_APPEND_TIME, LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.batch_check import Checked, TooLongForEventLoop, check_produce_batch
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import HEADER_BYTES, STAMPED_BYTES, BatchHeader, crc_ok, pack_header, read_header, stamped_head
from ottla.protocol.records.compression import BLOCKS_MIN, Codec, compress, decompress
from ottla.protocol.records.record import Record, SimpleRecord, build_batch, encode_record, iter_records
from tests.support.tiny_blocks import in_many_blocks

NOW = 1_700_000_000_000
RECORDS = [SimpleRecord(b"a", b"1", NOW), SimpleRecord(b"b", b"2", NOW + 20, [("h", b"x")]), SimpleRecord(b"c", None, NOW + 10)]
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
APPEND_TIME = LogConfig(message_timestamp_type=LOG_APPEND_TIME)


def check(batch: bytes, config: LogConfig = LogConfig(), now_ms: int = NOW) -> Checked:  # noqa: B008 - LogConfig is immutable
    return check_produce_batch(batch, config=config, now_ms=now_ms)


def refusal(batch: bytes, config: LogConfig = LogConfig()) -> Rejected:  # noqa: B008 - LogConfig is immutable
    with pytest.raises(Rejected) as raised:
        check(batch, config)
    return raised.value


def packed(header: BatchHeader, section: bytes) -> bytes:
    return pack_header(header, section) + section


def changed(records: list[SimpleRecord] = RECORDS, codec: Codec = Codec.NONE, **fields: Any) -> bytes:
    """Return a batch with changed header fields and the matching CRC."""
    batch = build_batch(records, codec=codec)
    return packed(read_header(batch)._replace(**fields), batch[HEADER_BYTES:])


def with_section(section: bytes, count: int, codec: Codec = Codec.NONE) -> bytes:
    header = read_header(build_batch(RECORDS, codec=codec))
    return packed(header._replace(record_count=count, last_offset_delta=count - 1), compress(codec, section))


def written(checked: Checked, base_offset: int = 500, leader_epoch: int = 9) -> bytes:
    return b"".join((stamped_head(base_offset, checked.header.batch_length, leader_epoch), *checked.bytes_from_magic))


def read(batch: bytes) -> list[Record]:
    assert crc_ok(batch, read_header(batch))
    return list(iter_records(batch))


REFUSED = {
    "empty": (b"", ErrorCode.CORRUPT_MESSAGE, "61 bytes"),
    "a header cut short": (build_batch(RECORDS)[:60], ErrorCode.CORRUPT_MESSAGE, "61 bytes"),
    "magic 1": (changed(magic=1), ErrorCode.INVALID_RECORD, "magic 1"),
    "base offset": (changed(base_offset=1), ErrorCode.INVALID_RECORD, "base offset"),
    "cut short": (build_batch(RECORDS)[:-1], ErrorCode.CORRUPT_MESSAGE, "bytes in"),
    "bytes behind it": (build_batch(RECORDS) + b"x", ErrorCode.CORRUPT_MESSAGE, "bytes in"),
    "negative last offset delta": (changed(last_offset_delta=-1), ErrorCode.INVALID_RECORD, "last offset delta is -1"),
    "no records": (changed(record_count=0), ErrorCode.INVALID_RECORD, "record count is 0"),
    "negative count": (changed(record_count=-1), ErrorCode.INVALID_RECORD, "record count is -1"),
    "count and delta differ": (changed(last_offset_delta=3), ErrorCode.INVALID_RECORD, "3 records"),
    "control": (changed(attributes=0x20), ErrorCode.INVALID_RECORD, "control"),
    "producer without sequence": (changed(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD, "base sequence -1"),
    "codec 5": (changed(attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR, "codec 5"),
    "not gzip": (changed(attributes=1), ErrorCode.CORRUPT_MESSAGE, "gzip"),
    "not zstd": (changed(attributes=4), ErrorCode.CORRUPT_MESSAGE, "zstd"),
    "more records than stated": (changed(record_count=2, last_offset_delta=1), ErrorCode.INVALID_RECORD, "left over"),
    "fewer records than stated": (changed(record_count=4, last_offset_delta=3), ErrorCode.INVALID_RECORD, "fewer"),
    "a huge count": (changed(record_count=2**31 - 1, last_offset_delta=2**31 - 2), ErrorCode.INVALID_RECORD, "fewer"),
    "timestamp type": (changed(attributes=8, max_timestamp=-1), ErrorCode.INVALID_TIMESTAMP, "rejected due to invalid timestamp"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_batch_that_breaks_one_rule_gets_its_error(name: str) -> None:
    batch, code, message = REFUSED[name]
    rejected = refusal(batch)
    assert (rejected.code, message in rejected.message) == (code, True), rejected


def test_any_flipped_bit_after_the_length_is_corrupt_or_invalid() -> None:
    batch = build_batch(RECORDS)
    for at in range(12, len(batch)):
        flipped = bytearray(batch)
        flipped[at] ^= 1
        if not 12 <= at < 16:  # the leader epoch, which the broker sets
            assert refusal(bytes(flipped)).code in {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}, at


def test_the_size_limit_counts_the_whole_compressed_batch_and_comes_before_the_crc() -> None:
    batch = build_batch(RECORDS)
    assert check(batch, LogConfig(max_message_bytes=len(batch)))
    broken = batch[:-1] + b"\xff"
    assert refusal(broken, LogConfig(max_message_bytes=len(batch) - 1)).code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_crc_comes_before_the_rules_of_the_header() -> None:
    broken = bytearray(changed(record_count=0))
    broken[-1] ^= 1
    assert refusal(bytes(broken)).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_are_checked_inside_every_codec(codec: Codec) -> None:
    good = encode_record(0, 0, b"k", b"v")
    assert "left over" in refusal(with_section(good + b"\0", 1, codec)).message
    assert "record 1" in refusal(with_section(good + b"\x02\x00", 2, codec)).message


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_decompression_bomb_is_too_large(codec: Codec) -> None:
    bomb = with_section(bytes(limits.DECOMPRESSED_BATCH_BYTES + 1), 1, codec)
    assert len(bomb) < LogConfig().max_message_bytes
    assert refusal(bomb).code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_timestamp_out_of_range_gets_kafkas_message() -> None:
    config = LogConfig(message_timestamp_before_max_ms=5, message_timestamp_after_max_ms=7)
    rejected = refusal(build_batch([SimpleRecord(None, b"", NOW), SimpleRecord(None, b"", NOW + 8)]), config)
    assert rejected.message == "One or more records have been rejected due to invalid timestamp"
    window = f"The timestamp should be within [{NOW - 5}, {NOW + 7}]"
    assert rejected.record_errors == [(1, f"Timestamp {NOW + 8} of message with offset 1 is out of range. {window}")]


def test_a_compacted_topic_reports_every_record_without_a_key() -> None:
    records = [SimpleRecord(None, b"1", NOW), SimpleRecord(b"", b"2", NOW), SimpleRecord(None, b"3", NOW)]
    rejected = refusal(build_batch(records), COMPACTED)
    assert (rejected.code, [index for index, _ in rejected.record_errors]) == (ErrorCode.INVALID_RECORD, [0, 2])
    assert check(build_batch(records))
    assert check(build_batch(RECORDS), COMPACTED)


WINDOW = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=100)


@pytest.mark.parametrize("timestamp", [NOW - 1000, NOW + 100, -1])
def test_timestamps_within_the_window_and_absent_ones_are_accepted(timestamp: int) -> None:
    assert check(build_batch([SimpleRecord(None, b"", NOW), SimpleRecord(None, b"", timestamp)]), WINDOW)


def test_a_batch_without_any_timestamp_is_in_every_window() -> None:
    assert check(build_batch([SimpleRecord(None, b"")] * 2), WINDOW).header.max_timestamp == -1


@pytest.mark.parametrize("timestamp", [NOW - 1001, NOW + 101, 0, -2])
def test_timestamps_outside_of_the_window_are_reported(timestamp: int) -> None:
    records = [
        SimpleRecord(None, b"", NOW),
        SimpleRecord(None, b"", timestamp),
        SimpleRecord(None, b"", -1),
        SimpleRecord(None, b"", timestamp),
    ]
    rejected = refusal(build_batch(records), WINDOW)
    assert (rejected.code, [index for index, _ in rejected.record_errors]) == (ErrorCode.INVALID_TIMESTAMP, [1, 3])


def test_by_default_the_past_is_unlimited_and_the_future_an_hour() -> None:
    assert LogConfig().message_timestamp_before_max_ms == INT64_MAX
    assert check(build_batch([SimpleRecord(None, b"", 0), SimpleRecord(None, b"", NOW + 3_600_000)]))
    assert refusal(build_batch([SimpleRecord(None, b"", NOW + 3_600_001)])).code == ErrorCode.INVALID_TIMESTAMP


def test_an_invalid_timestamp_outranks_a_missing_key() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}), message_timestamp_after_max_ms=0)
    rejected = refusal(
        build_batch([SimpleRecord(None, b"", NOW), SimpleRecord(b"k", b"", NOW + 1), SimpleRecord(None, b"", NOW + 1)]), config
    )
    assert (rejected.code, [index for index, _ in rejected.record_errors]) == (ErrorCode.INVALID_TIMESTAMP, [0, 1, 2])


def test_invalid_records_are_reported_up_to_a_limit() -> None:
    rejected = refusal(build_batch([SimpleRecord(None, b"", NOW)] * (limits.RECORD_ERRORS_MAX + 5)), COMPACTED)
    assert len(rejected.record_errors) == limits.RECORD_ERRORS_MAX


def test_a_topic_with_append_time_refuses_batches_that_claim_it_and_ignores_old_timestamps() -> None:
    rejected = refusal(build_batch(RECORDS, log_append_time=NOW), APPEND_TIME)
    assert (rejected.code, len(rejected.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, 3)
    config = LogConfig(message_timestamp_type=LOG_APPEND_TIME, message_timestamp_before_max_ms=1)
    assert check(build_batch([SimpleRecord(None, b"", 5)]), config)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_needs_no_change_keeps_its_bytes(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec, producer_id=5, producer_epoch=1, base_sequence=7)
    for config in (LogConfig(), LogConfig(compression_type="uncompressed" if codec is Codec.NONE else codec.name.lower())):
        checked = check(batch, config)
        out = written(checked)
        assert out[8:12] == batch[8:12]
        assert out[16:] == batch[16:]
        assert (read_header(out).base_offset, read_header(out).partition_leader_epoch) == (500, 9)
        assert checked.header.max_timestamp == NOW + 20


def test_in_the_common_case_no_byte_of_the_body_is_copied() -> None:
    batch = build_batch([SimpleRecord(None, bytes(900_000), NOW)])
    tracemalloc.start()
    try:
        (tail,) = check(batch).bytes_from_magic
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(tail, memoryview)
    assert tail.obj is batch
    assert len(tail) == len(batch) - STAMPED_BYTES
    assert peak < 64 << 10


@pytest.mark.parametrize("codec", list(Codec))
def test_a_wrong_max_timestamp_is_corrected_and_the_crc_with_it(codec: Codec) -> None:
    out = written(check(changed(codec=codec, max_timestamp=NOW + 999)))
    assert read_header(out).max_timestamp == NOW + 20
    assert [record.timestamp for record in read(out)] == [NOW, NOW + 20, NOW + 10]
    assert out[HEADER_BYTES:] == build_batch(RECORDS, codec=codec)[HEADER_BYTES:]


@pytest.mark.parametrize("codec", list(Codec))
def test_append_time_is_stamped_without_touching_the_records(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    out = written(check(batch, APPEND_TIME, NOW + 5))
    header = read_header(out)
    assert (header.is_log_append_time, header.max_timestamp, header.base_timestamp) == (True, NOW + 5, NOW)
    assert out[HEADER_BYTES:] == batch[HEADER_BYTES:]
    assert [record.timestamp for record in read(out)] == [NOW + 5] * 3


def test_a_topic_with_create_time_clears_a_claimed_append_time_and_keeps_the_time() -> None:
    header = read_header(written(check(build_batch(RECORDS, log_append_time=NOW + 7))))
    assert (header.is_log_append_time, header.max_timestamp) == (False, NOW + 7)
    assert refusal(build_batch(RECORDS, log_append_time=NOW - 1001), WINDOW).code == ErrorCode.INVALID_TIMESTAMP
    assert refusal(build_batch(RECORDS, log_append_time=NOW + 3_600_001)).code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(Codec))
def test_another_codec_than_the_topics_is_recompressed_with_producer_ids_kept(source: Codec, target: Codec) -> None:
    batch = build_batch(RECORDS, codec=source, producer_id=5, producer_epoch=1, base_sequence=7, transactional=True)
    config = LogConfig(compression_type="uncompressed" if target is Codec.NONE else target.name.lower())
    out = written(check(batch, config))
    header = read_header(out)
    assert (header.codec, header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (
        target,
        5,
        1,
        7,
        True,
    )
    assert (header.record_count, header.last_offset_delta, header.max_timestamp) == (3, 2, NOW + 20)
    assert [(r.offset, r.key, r.value, r.timestamp, list(r.headers)) for r in read(out)] == [
        (500 + i, r.key, r.value, r.timestamp, list(r.headers)) for i, r in enumerate(RECORDS)
    ]


def test_the_topics_compression_level_is_used() -> None:
    records = [SimpleRecord(None, b"".join(b"record %d of many; " % (i * 7919 % 1000) for i in range(9000)), NOW)]
    configs = [LogConfig(compression_type="gzip", compression_gzip_level=level) for level in (1, 9)]
    sizes = [len(check(build_batch(records), config).bytes_from_magic[-1]) for config in configs]
    assert sizes[1] < sizes[0]


def test_a_recompressed_batch_keeps_no_attributes_that_clients_may_not_set() -> None:
    batch = changed(codec=Codec.GZIP, attributes=Codec.GZIP | 0x40 | 0x80 | 0x10)
    assert check(batch, LogConfig(compression_type="lz4")).header.attributes == Codec.LZ4 | 0x10


def test_a_batch_that_grows_over_the_limit_by_another_codec_is_too_large() -> None:
    batch = build_batch([SimpleRecord(None, bytes(5000), NOW)], codec=Codec.GZIP)
    assert refusal(batch, LogConfig(compression_type="uncompressed", max_message_bytes=1000)).code == ErrorCode.MESSAGE_TOO_LARGE


SKIPPING = b"".join(encode_record(offset, offset, b"%d" % offset, None, [("h", None)]) for offset in (0, 5, 2))


def test_offset_deltas_that_skip_are_refused_uncompressed() -> None:
    rejected = refusal(with_section(SKIPPING, 3))
    assert (rejected.code, "offset deltas" in rejected.message) == (ErrorCode.INVALID_RECORD, True)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_offset_deltas_that_skip_are_renumbered_when_compressed_as_in_kafka(codec: Codec) -> None:
    checked = check(with_section(SKIPPING, 3, codec))
    out = written(checked)
    assert read_header(out).codec is codec
    assert [(r.offset, r.key, r.headers) for r in read(out)] == [
        (500, b"0", (("h", None),)),
        (501, b"5", (("h", None),)),
        (502, b"2", (("h", None),)),
    ]
    assert checked.header.max_timestamp == NOW + 5


def test_a_recompressed_section_equals_the_records_in_the_topics_codec() -> None:
    plain = build_batch(RECORDS)
    out = written(check(plain, LogConfig(compression_type="zstd")))
    assert decompress(Codec.ZSTD, out[HEADER_BYTES:], 1000) == plain[HEADER_BYTES:]


def alike(count: int, codec: Codec = Codec.ZSTD) -> bytes:
    """Return a batch of `count` empty records, all with offset delta 0."""
    return with_section(encode_record(0, 0, None, None) * count, count, codec)


def test_a_batch_of_more_records_than_a_producer_makes_is_too_large() -> None:
    batch = alike(limits.BATCH_RECORDS_MAX + 1)
    assert len(batch) < 2_000
    rejected = refusal(batch)
    assert (rejected.code, "1000001 records" in rejected.message) == (ErrorCode.MESSAGE_TOO_LARGE, True)


def test_a_topic_of_large_batches_takes_as_many_records_as_an_uncompressed_batch_could_hold() -> None:
    count = limits.BATCH_RECORDS_MAX + 1
    assert check(alike(count), LogConfig(max_message_bytes=7 * count)).header.record_count == count


def test_a_million_records_are_renumbered_in_little_more_memory_than_they_take() -> None:
    batch = alike(limits.BATCH_RECORDS_MAX)
    tracemalloc.start()
    try:
        header = check(batch).header
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert header.record_count == limits.BATCH_RECORDS_MAX
    assert peak < 60_000_000, "8 MB of records, 18 MB of room for them with other offset deltas, and what compression takes"


HEAVY = {
    "many records": (alike(limits.CHECKED_AT_ONCE_RECORDS + 1), LogConfig()),
    "many bytes": (build_batch([SimpleRecord(None, bytes(limits.CHECKED_AT_ONCE_BYTES), NOW)], codec=Codec.ZSTD), LogConfig()),
    "many blocks": (in_many_blocks(RECORDS, BLOCKS_MIN), LogConfig()),
    "many blocks in as many bytes as a batch may have": (in_many_blocks(RECORDS, 209_000), LogConfig()),
    "many bytes without compression": (
        build_batch([SimpleRecord(None, bytes(limits.CHECKED_AT_ONCE_BYTES), NOW)]),
        LogConfig(max_message_bytes=2 * limits.CHECKED_AT_ONCE_BYTES),
    ),
    "many bytes to compress": (
        build_batch([SimpleRecord(None, bytes(limits.RECOMPRESSED_AT_ONCE_BYTES), NOW)]),
        LogConfig(compression_type="gzip"),
    ),
}


@pytest.mark.parametrize("name", list(HEAVY))
def test_a_batch_that_would_block_the_loop_is_checked_later(name: str) -> None:
    batch, config = HEAVY[name]
    with pytest.raises(TooLongForEventLoop):
        check_produce_batch(batch, config=config, now_ms=NOW, at_once=True)
    assert check(batch, config).header.record_count == read_header(batch).record_count


def test_an_ordinary_batch_is_checked_at_once() -> None:
    batch = build_batch([SimpleRecord(None, bytes(100), NOW)] * 5_000)
    assert check_produce_batch(batch, config=LogConfig(), now_ms=NOW, at_once=True).header.record_count == 5_000


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_record_of_a_compressed_batch_may_have_at_most_max_decompressed_message_bytes(codec: Codec) -> None:
    batch = build_batch([SimpleRecord(None, b"v" * size, NOW) for size in (10, 300, 200)], codec=codec)
    body = 300 + 7  # attributes, two deltas, the null key, two bytes of the value's length, the header count
    assert read(written(check(batch, LogConfig(max_decompressed_message_bytes=body))))
    found = refusal(batch, LogConfig(max_decompressed_message_bytes=body - 1))
    assert found.code is ErrorCode.INVALID_RECORD
    assert f"record 1 of the batch: Invalid record size: {body} exceeds the configured maximum record size of {body - 1}." in found.message


def test_an_uncompressed_batch_is_not_limited_by_max_decompressed_message_bytes() -> None:
    assert read(written(check(build_batch(RECORDS), LogConfig(max_decompressed_message_bytes=1))))

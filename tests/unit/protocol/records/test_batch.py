from __future__ import annotations

import struct
import tracemalloc

import pytest

from ottla.protocol.records.batch import (
    HEADER_BYTES,
    STAMPED_BYTES,
    crc_ok,
    pack_header,
    read_header,
    split_batches,
    stamp,
)
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.errors import CorruptBatch, UnknownCodec
from ottla.protocol.records.record import SimpleRecord, build_batch

BATCH = build_batch(
    [SimpleRecord(b"k", b"v", 1000), SimpleRecord(None, b"w", 3000), SimpleRecord(b"l", None, 2000)],
    base_offset=40,
    leader_epoch=7,
    producer_id=9001,
    producer_epoch=3,
    base_sequence=5,
    transactional=True,
)


def with_field(at: int, layout: str, value: int) -> bytes:
    changed = bytearray(BATCH)
    struct.pack_into(layout, changed, at, value)
    return bytes(changed)


def test_every_field_of_the_header_is_read_from_its_place() -> None:
    header = read_header(b"before" + BATCH, 6)
    assert header._replace(crc=0) == (40, len(BATCH) - 12, 7, 2, 0, 0x10, 2, 1000, 3000, 9001, 3, 5, 3)
    assert header.crc == struct.unpack_from(">I", BATCH, 17)[0]
    assert (header.size_bytes, header.last_offset, header.next_offset, header.last_sequence) == (len(BATCH), 42, 43, 7)
    assert (header.is_transactional, header.is_control, header.is_log_append_time, header.has_delete_horizon) == (True, False, False, False)
    assert header.has_producer_id


@pytest.mark.parametrize(
    ("bit", "name"), [(3, "is_log_append_time"), (4, "is_transactional"), (5, "is_control"), (6, "has_delete_horizon")]
)
def test_each_attribute_bit_means_one_thing(bit: int, name: str) -> None:
    header = read_header(BATCH)._replace(attributes=1 << bit)
    names = ["is_log_append_time", "is_transactional", "is_control", "has_delete_horizon"]
    assert [n for n in names if getattr(header, n)] == [name]


def test_codecs_come_from_the_low_three_bits_and_five_to_seven_are_refused() -> None:
    header = read_header(BATCH)
    assert [header._replace(attributes=0x78 | i).codec for i in range(5)] == list(Codec)
    for unknown in (5, 6, 7):
        with pytest.raises(UnknownCodec, match=str(unknown)):
            _ = header._replace(attributes=unknown).codec


def test_last_sequence_wraps_to_zero_and_is_minus_1_without_a_base() -> None:
    header = read_header(BATCH)
    assert header._replace(base_sequence=2**31 - 1, last_offset_delta=1).last_sequence == 0
    assert header._replace(base_sequence=-1).last_sequence == -1


def test_truncated_header_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="only 60 are left"):
        read_header(BATCH[:60])


def test_batches_are_split_and_a_partial_last_one_is_omitted() -> None:
    other = build_batch([SimpleRecord(None, b"x" * 50)])
    stream = BATCH + other
    for cut in range(len(other)):
        found = list(split_batches(stream[: len(stream) - 1 - cut]))
        assert [(pos, header.base_offset) for pos, header in found] == [(0, 40)]
    assert [(pos, header.size_bytes) for pos, header in split_batches(memoryview(stream))] == [(0, len(BATCH)), (len(BATCH), len(other))]
    assert list(split_batches(b"")) == []


@pytest.mark.parametrize("length", [13, 0, -1, -(2**31)])
def test_a_batch_length_below_any_header_is_corrupt_even_in_the_tail(length: int) -> None:
    with pytest.raises(CorruptBatch, match="minimum"):
        list(split_batches(with_field(8, ">i", length)))
    with pytest.raises(CorruptBatch, match="minimum"):
        list(split_batches(with_field(8, ">i", length)[:12]))


def test_a_batch_length_above_the_callers_maximum_is_corrupt() -> None:
    assert len(list(split_batches(BATCH, len(BATCH) - 12))) == 1
    with pytest.raises(CorruptBatch, match="maximum"):
        list(split_batches(BATCH, len(BATCH) - 13))


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    with pytest.raises(CorruptBatch, match="magic"):
        list(split_batches(with_field(16, ">B", magic)))


def test_a_v2_batch_smaller_than_its_header_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="smaller than its header"):
        list(split_batches(with_field(8, ">i", 48)))


def test_smallest_legacy_message_is_accepted() -> None:
    [(_, header)] = split_batches(struct.pack(">qiIb", 3, 14, 0, 0) + bytes(9))
    assert (header.base_offset, header.size_bytes) == (3, 26)


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_messages_are_split_with_their_offset_magic_size_and_crc(magic: int) -> None:
    message = struct.pack(">qiIb", 12, 22, 0xDEADBEEF, magic) + bytes(17)
    found = list(split_batches(message + BATCH))
    assert [(pos, h.base_offset, h.magic, h.size_bytes) for pos, h in found] == [(0, 12, magic, 34), (34, 40, 2, len(BATCH))]
    assert found[0][1].crc == 0xDEADBEEF


def test_every_flipped_bit_behind_the_crc_is_noticed_and_none_before_it() -> None:
    for at in range(len(BATCH)):
        flipped = bytearray(BATCH)
        flipped[at] ^= 0x10
        outside = at < 8 or 12 <= at < 16
        if not 8 <= at < 12 and at != 16:
            assert crc_ok(flipped, read_header(flipped)) is outside, at


def test_the_crc_of_a_batch_inside_a_larger_buffer_is_found_at_its_position() -> None:
    buf = b"xyz" + BATCH + b"tail"
    header = read_header(buf, 3)
    assert crc_ok(buf, header, 3)
    assert not crc_ok(buf, header, 2)
    assert not crc_ok(buf[:-5], header, 3)


def test_stamping_changes_offset_and_epoch_alone_and_keeps_the_crc_valid() -> None:
    head, tail = stamp(memoryview(BATCH), 2**40, 99)
    stamped = head + bytes(tail)
    assert stamped[8:12] == BATCH[8:12]
    assert stamped[16:] == BATCH[16:]
    header = read_header(stamped)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 99)
    assert crc_ok(stamped, header)


def test_stamping_and_checking_copy_no_body() -> None:
    large = build_batch([SimpleRecord(None, bytes(4 << 20))])
    header = read_header(large)
    tracemalloc.start()
    try:
        head, tail = stamp(large, 5, 5)
        assert crc_ok(large, header)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(head) == STAMPED_BYTES
    assert tail.obj is large
    assert peak < 64 << 10


def test_packing_computes_length_and_crc_from_the_bytes() -> None:
    header = read_header(BATCH)
    assert pack_header(header._replace(batch_length=1, crc=2), BATCH[HEADER_BYTES:]) == BATCH[:HEADER_BYTES]

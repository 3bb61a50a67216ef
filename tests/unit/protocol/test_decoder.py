from __future__ import annotations

import tracemalloc

import pytest

from ottla.protocol.decoder import REQUEST_ELEMENTS
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.schema import (
    Buffer,
    Message,
    array,
    boolean,
    bytes_,
    decode,
    decoder,
    encode,
    int8,
    int16,
    int32,
    records_,
    string,
    struct,
    wire_struct,
)
from ottla.protocol.wire import TAGGED_FIELDS, uvarint


@wire_struct
class Row:
    cells: list[int] = array(int8)


@wire_struct
class Nest(Message, versions="0", flexible="none"):
    rows: list[Row] = array(Row)


@wire_struct
class FlexibleNest(Message, versions="0", flexible="0+"):
    rows: list[Row] = array(Row)


@wire_struct
class Leader:
    id: int = int32(default=-1)


@wire_struct
class Partition:
    index: int = int32()
    records: Buffer | None = records_(nullable="0+", default=None)


@wire_struct
class Sample(Message, versions="0-2", flexible="1+"):
    code: int = int8()
    epoch: int = int16()
    ok: bool = boolean()
    name: str = string()
    note: str | None = string(nullable="2+")
    partitions: list[Partition] = array(Partition)
    numbers: list[int] = array(int32)
    metadata: Buffer = bytes_()
    cursor: Leader | None = struct(Leader, nullable="2+")
    leader: Leader = struct(Leader, "1+", tag=0)
    extra: int = int32("1+", default=-1, tag=3)


FULL = Sample(1, -2, True, "näme", None, [Partition(5, b"rec"), Partition(6, None)], [1, 2], b"meta", Leader(3), Leader(4), 9)


def with_tags(section: bytes) -> bytes:
    """Return the bytes of a Sample, version 1, with default fields and this section of tagged fields."""
    return encode(Sample(cursor=Leader()), 1)[:-1] + section


@pytest.mark.parametrize("version", [1, 2])
def test_a_message_reads_back_as_it_was(version: int) -> None:
    msg = Sample(**{name: getattr(FULL, name) for name in Sample.__slots__})
    msg.note = None if version == 2 else "n"
    assert decode(Sample, encode(msg, version), version) == msg


def test_records_are_a_view_of_the_frame_and_metadata_is_a_copy() -> None:
    frame = bytearray(encode(FULL, 2))
    msg = decode(Sample, frame, 2)
    records = msg.partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert isinstance(msg.metadata, bytes)


def test_a_null_where_null_is_not_allowed_is_refused() -> None:
    data = b"\0\0\0\0" + b"\0"
    with pytest.raises(MalformedMessage, match=r"Sample v1: name at offset 5: null where null is not allowed"):
        decode(Sample, data, 1)


def test_the_error_names_the_nested_field_that_breaks_off() -> None:
    data = b"\0\0\0\0" + b"\2n" + b"\1" + b"\3" + b"\0\0\0\5\7rrrrrr\0" + b"\0\0\0"
    with pytest.raises(MalformedMessage) as caught:
        decode(Sample, data, 1)
    assert (caught.value.message, caught.value.field, caught.value.offset) == ("Sample v1", "partitions[].index", 20)


def test_malformed_run_of_fixed_fields_names_the_field() -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(Sample, b"\0\0", 1)
    assert (caught.value.field, caught.value.offset) == ("epoch", 1)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="name at offset 5: not UTF-8"):
        decode(Sample, b"\0\0\0\0" + b"\2\xff", 1)


def test_bytes_after_the_message_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="2 bytes follow its end"):
        decode(Sample, encode(FULL, 2) + b"ab", 2)


def test_a_compact_string_longer_than_kafka_allows_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="string of 32768 bytes"):
        decode(Sample, b"\0\0\0\0" + b"\x81\x80\x02" + b"x" * 32768, 1)


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\0\0\0\x03"])
def test_a_count_that_the_bytes_cannot_back_is_refused_before_anything_is_built(count: bytes) -> None:
    decoder(Sample, 0)
    data = b"\0\0\0\0" + b"\0\0" + b"\0\0" + count + bytes(20)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match=r"partitions at offset 12: .* elements announced, 20 bytes left"):
            decode(Sample, data, 0)
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()


def test_last_occurrence_of_a_duplicate_tag_counts() -> None:
    msg = decode(Sample, with_tags(b"\2" + b"\3\4\0\0\0\1" + b"\3\4\0\0\0\2"), 1)
    assert msg.extra == 2


def test_tags_are_accepted_in_any_order_and_unknown_ones_skipped() -> None:
    msg = decode(Sample, with_tags(b"\3" + b"\3\4\0\0\0\1" + b"\x63\2ab" + b"\0\5\0\0\0\7\0"), 1)
    assert (msg.extra, msg.leader) == (1, Leader(7))


@pytest.mark.parametrize("size", [3, 5])
def test_a_known_tag_that_does_not_fill_its_size_is_refused(size: int) -> None:
    with pytest.raises(MalformedMessage, match="extra at offset"):
        decode(Sample, with_tags(b"\1" + b"\3" + bytes([size]) + b"\0\0\0\1\0"[: max(size, 4)]), 1)


def test_a_tag_that_reaches_beyond_the_message_is_refused() -> None:
    with pytest.raises(MalformedMessage, match=r"tags at offset .* after the message"):
        decode(Sample, with_tags(b"\1" + b"\3\x7f\0\0\0\1"), 1)


@pytest.mark.parametrize("tag", [b"\3\4\0\0\0\1", b"\5\0"], ids=["known", "unknown"])
def test_a_structure_with_too_many_tags_is_refused(tag: bytes) -> None:
    decode(Sample, with_tags(uvarint(TAGGED_FIELDS) + tag * TAGGED_FIELDS), 1)
    more = TAGGED_FIELDS + 1
    with pytest.raises(MalformedMessage, match=f"{more} tagged fields in one structure"):
        decode(Sample, with_tags(uvarint(more) + tag * more), 1)
    with pytest.raises(MalformedMessage, match=f"{more} tagged fields in one structure"):
        decode(FlexibleNest, b"\1" + uvarint(more) + tag * more, 0)


def test_unknown_tags_count_as_elements_of_a_request_and_known_ones_do_not() -> None:
    data = memoryview(b"\4" + b"\1\1\5\0" * 3 + b"\0")  # three rows without cells, each with a tag
    assert len(decoder(FlexibleNest, 0, elements=6)(data, 0, len(data)).rows) == 3
    with pytest.raises(MalformedMessage, match="more than 5 elements"):
        decoder(FlexibleNest, 0, elements=5)(data, 0, len(data))
    read = decoder(Sample, 1, elements=0)
    known, both = (memoryview(with_tags(section)) for section in (b"\2" + b"\3\4\0\0\0\1" * 2, b"\3" + b"\3\4\0\0\0\1" * 3))
    assert read(known, 0, len(known)).extra == 1
    with pytest.raises(MalformedMessage, match="more than 0 elements"):
        read(both, 0, len(both))


def test_a_nullable_struct_is_null_at_any_negative_mark() -> None:
    data = encode(Sample(), 2)
    assert decode(Sample, data, 2).cursor is None
    assert decode(Sample, data[:-2] + b"\xfe\0", 2).cursor is None


def test_the_elements_of_all_arrays_of_a_request_are_counted_together_before_they_are_built() -> None:
    read = decoder(Nest, 0, exact=False)
    half = Nest([Row([1] * (REQUEST_ELEMENTS // 2 - 1))] * 2)
    data = memoryview(encode(half, 0))
    assert len(read(data, 0, len(data)).rows) == 2
    more = memoryview(encode(Nest([*half.rows, Row()]), 0))
    with pytest.raises(MalformedMessage, match=f"more than {REQUEST_ELEMENTS} elements"):
        read(more, 0, len(more))
    assert len(decode(Nest, more, 0).rows) == 3, "a message that is no request may hold more"
    with pytest.raises(MalformedMessage, match="more than 2 elements"):
        decoder(Nest, 0, elements=2)(more, 0, len(more))

from __future__ import annotations

import pytest

from ottla.protocol.encoder import SEPARATE_MIN
from ottla.protocol.errors import EncodeError
from ottla.protocol.schema import Buffer, Message, array, decode, encode, encoder, int16, int32, records_, string, struct, uuid, wire_struct


@wire_struct
class Node:
    id: int = int32(default=-1)
    names: list[str] = array(string)


@wire_struct
class Part:
    index: int = int32()
    topic_id: bytes = uuid()
    records: Buffer | None = records_(nullable="0+", default=None)


@wire_struct
class Sample(Message, versions="0-1", flexible="1+"):
    code: int = int16()
    name: str = string()
    parts: list[Part] = array(Part)
    late: int = int32("1+", default=7, tag=5)
    node: Node = struct(Node, "1+", tag=2)
    nodes: list[Node] = array(Node, "1+", tag=1)


def test_large_records_are_separate_uncopied_buffers() -> None:
    large = memoryview(bytes(SEPARATE_MIN))
    parts: list[Buffer] = []
    last = encoder(Sample, 1)(Sample(1, "n", [Part(1, records=large), Part(2, records=b"small")]), bytearray(b"head"), parts)
    assert parts[1] is large
    assert len(parts) == 2
    assert bytes(parts[0]).startswith(b"head\0\1\2n\3")
    assert bytes(last) == b"\0" + b"\0\0\0\2" + bytes(16) + b"\6small" + b"\0" + b"\0"


def test_small_records_stay_in_one_buffer() -> None:
    parts: list[Buffer] = []
    encoder(Sample, 0)(Sample(parts=[Part(records=bytes(SEPARATE_MIN - 1))]), bytearray(), parts)
    assert parts == []


def test_tagged_fields_are_written_in_the_order_of_their_tags_and_only_if_set() -> None:
    head = b"\0\0" + b"\1" + b"\1"
    assert encode(Sample(), 1) == head + b"\0"
    assert encode(Sample(late=8), 1) == head + b"\1" + b"\5\4\0\0\0\x08"
    both = head + b"\2" + b"\2\6\0\0\0\3\1\0" + b"\5\4\0\0\0\x08"
    assert encode(Sample(late=8, node=Node(3)), 1) == both


def test_a_struct_with_an_array_is_set_when_the_array_is_not_empty() -> None:
    assert encode(Sample(node=Node(names=["a"])), 1)[4:] == b"\1" + b"\2\x08" + b"\xff\xff\xff\xff\2\2a\0"


def test_a_size_of_more_than_127_bytes_is_a_longer_varint() -> None:
    data = encode(Sample(nodes=[Node(1, ["x" * 200])]), 1)
    assert data[4:9] == b"\1\1" + b"\xd1\x01" + b"\2"


@pytest.mark.parametrize(
    ("msg", "text"),
    [
        (Sample(code=40000), "Sample v1: code: "),
        (Sample(name="x" * 32768), "Sample v1: name: string of 32768 bytes"),
        (Sample(name=None), "Sample v1: name: "),  # type: ignore[arg-type] # the mistake that is to be reported
        (Sample(name="\ud800"), "Sample v1: name: "),
        (Sample(parts=[Part(index=None)]), r"Sample v1: parts\[\]\.index"),  # type: ignore[arg-type] # the mistake that is to be reported
        (Sample(parts=[Part(topic_id=b"short")]), r"Sample v1: parts\[\]\.topic_id: a uuid has 16 bytes"),
    ],
)
def test_a_value_that_its_field_cannot_carry_is_reported_with_the_field(msg: Sample, text: str) -> None:
    with pytest.raises(EncodeError, match=text):
        encode(msg, 1)


def test_a_string_of_32767_bytes_is_carried_in_both_encodings() -> None:
    for version in (0, 1):
        assert b"x" * 32767 in encode(Sample(name="x" * 32767), version)


@wire_struct
class Maybe(Message, versions="0", flexible="0+"):
    node: Node | None = struct(Node, nullable="0+", default=Node, tag=0)


def test_a_tagged_struct_that_is_not_null_by_itself_says_that_it_is_null() -> None:
    """As Kafka's generated classes do: a tagged struct with default contents is left out, and null is written as zero."""
    assert encode(Maybe(), 0).hex() == "00"
    assert encode(Maybe(None), 0).hex() == "01000100"
    assert encode(Maybe(Node(5)), 0).hex() == "0100" + "07" + "01" + "00000005" + "01" + "00"
    for value in (Maybe(), Maybe(None), Maybe(Node(5))):
        assert decode(Maybe, encode(value, 0), 0) == value

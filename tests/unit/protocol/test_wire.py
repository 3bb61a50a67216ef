from __future__ import annotations

import pytest

from ottla.protocol.wire import TAGGED_FIELDS, Bad, read_uvarint, skip_tags, string_length, uvarint

NUMBERS = [0, 1, 127, 128, 300, 16383, 16384, 2**21, 2**28, 2**31 - 1]


@pytest.mark.parametrize("number", NUMBERS)
def test_an_unsigned_varint_reads_back(number: int) -> None:
    data = uvarint(number)
    assert read_uvarint(b"??" + data + b"?", 2) == (number, 2 + len(data))


def test_an_unsigned_varint_has_the_least_significant_seven_bits_first() -> None:
    assert uvarint(300) == b"\xac\x02"


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x08", b"\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x80\x00"])
def test_a_varint_beyond_31_bits_or_5_bytes_is_refused(data: bytes) -> None:
    with pytest.raises(Bad):
        read_uvarint(data, 0)


def test_a_varint_that_breaks_off_is_refused() -> None:
    with pytest.raises(IndexError):
        read_uvarint(b"\x80\x80", 0)


def test_a_negative_number_has_no_unsigned_varint() -> None:
    with pytest.raises(Bad):
        uvarint(-1)


def test_a_string_of_more_than_32767_bytes_has_no_length() -> None:
    assert string_length(32768) == uvarint(32768)
    with pytest.raises(Bad, match="32768 bytes"):
        string_length(32769)


def test_unknown_tags_are_skipped_in_any_order() -> None:
    section = b"\x05" + b"\x07\x02ab" + b"\x01\x00" + b"\x07\x01c" + b"\xff\x01\x02ab" + b"\x08\x83\x00abc"
    assert skip_tags(section + b"rest", 0, len(section) + 4) == len(section)


def test_a_tag_that_reaches_beyond_the_message_is_refused() -> None:
    with pytest.raises(Bad, match="3 bytes after the message"):
        skip_tags(b"\x01\x00\x05ab", 0, 5)


def test_a_structure_with_too_many_tags_is_refused_before_they_are_read() -> None:
    section = uvarint(TAGGED_FIELDS) + b"\x07\x00" * TAGGED_FIELDS
    assert skip_tags(section, 0, len(section)) == len(section)
    with pytest.raises(Bad, match=f"{TAGGED_FIELDS + 1} tagged fields"):
        skip_tags(uvarint(TAGGED_FIELDS + 1), 0, 1)

"""The primitive types that compiled encoders and decoders process by a function call: varints, lengths and tags.

Readers take a buffer and a position and return (value, position after it). They raise `Bad`, `IndexError` or `struct.error` for invalid or
missing bytes; the compiled code that calls them raises a `MalformedMessage` that names the field instead.
Varints are Kafka's (`ByteUtils`): groups of seven bits, least significant first, at most 5 bytes for 32 bits and 10 for 64.
"""

from __future__ import annotations

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

STRING_BYTES_MAX = 0x7FFF
"""The longest string, in bytes: its length is an int16 in versions that are not flexible, and Kafka limits compact strings to the same
size."""

TAGGED_FIELDS = 100
"""The most tagged fields of one structure: Kafka's own have at most four. Without a limit, the header of a small request could hold the
event loop for 30 ms."""

_UVARINT_MAX = 0x7FFFFFFF
_UVARINT_SHIFT_MAX = 28
"""The number of bits by which a varint's fifth and last byte is shifted to the left."""
_MALFORMED_UVARINT = "varint longer than 5 bytes or above 2^31 - 1"


class Bad(Exception):
    """Invalid bytes, or a value that cannot be encoded. Compiled code converts it to MalformedMessage or EncodeError."""


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 31 bits, because lengths, counts, tags and sizes are non-negative Java ints. Return (value,
    position after it). Raises Bad for a larger value, IndexError if the bytes end first."""
    byte = buf[pos]
    value, shift = byte & 0x7F, 0
    while byte > 0x7F and shift < _UVARINT_SHIFT_MAX:
        pos += 1
        shift += 7
        byte = buf[pos]
        value |= (byte & 0x7F) << shift
    if byte > 0x7F or value > _UVARINT_MAX:
        raise Bad(_MALFORMED_UVARINT)
    return value, pos + 1


def read_string_length(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read the length prefix of a compact string. Return (prefix, position after it): the length in bytes plus one, 0 for null."""
    value, pos = read_uvarint(buf, pos)
    if value > STRING_BYTES_MAX + 1:
        raise Bad(f"string of {value - 1} bytes; at most {STRING_BYTES_MAX} are allowed")
    return value, pos


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint. Raises Bad for a negative number."""
    if value < 0:
        raise Bad(f"varint of the negative number {value}")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_length(value: int) -> bytes:
    """Return the bytes of a compact string's length prefix; `value` is the length in bytes plus one, 0 for null."""
    if value > STRING_BYTES_MAX + 1:
        raise Bad(f"string of {value - 1} bytes; at most {STRING_BYTES_MAX} are allowed")
    return uvarint(value)


def read_tag_count(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read the number of tagged fields of a structure. Return (number, position after it). Raises Bad if it exceeds TAGGED_FIELDS."""
    count, pos = read_uvarint(buf, pos)
    if count > TAGGED_FIELDS:
        raise Bad(f"{count} tagged fields in one structure; at most {TAGGED_FIELDS} are allowed")
    return count, pos


def skip_tags(buf: Buffer, pos: int, end: int) -> int:
    """Skip a section of tagged fields, all of which are unknown. Return the position after it. Raises Bad if a field extends beyond the
    position `end`, or if there are more than TAGGED_FIELDS."""
    count, pos = read_tag_count(buf, pos)
    for _ in range(count):
        if buf[pos] > 0x7F or (size := buf[pos + 1]) > 0x7F:
            _, pos = read_uvarint(buf, pos)
            size, pos = read_uvarint(buf, pos)
            pos += size
        else:  # both varints have one byte, as nearly always: three times as fast
            pos += 2 + size
        if pos > end:
            raise Bad(f"tagged field ends {pos - end} bytes after the message")
    return pos

"""Formats the subject name of a certificate as Java does, because users write principals and mapping rules for Java's format.

Invariants: attributes are in reverse order, without spaces between them. Only a few attribute types have a keyword; any other type is
written as its dotted object identifier with the DER of its value.

Source: JDK X500Principal.getName (RFC 2253), AVA.toRFC2253String.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The DER tags of the string types that Java converts to text: UTF8String, PrintableString, TeletexString, IA5String, GeneralString and
BMPString. Java does not convert a UniversalString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


def java_name(subject: bytes) -> str:
    """Return Java's text form of `subject`, a DER-encoded X.501 Name. Raises ValueError for other bytes."""
    (_, names), *rest = _values(subject)
    if rest:
        raise ValueError("data after the name")
    parts = []
    for _, pairs in _values(names):
        parts.append("+".join(_pair(pair) for _, pair in _values(pairs)))
    return ",".join(reversed(parts))


def _pair(pair: bytes) -> str:
    (_, number), (tag, value) = _values(pair)
    oid = _dotted(number)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or oid}=#{_encoded(tag, value).hex()}"
    text = value.decode("utf-8", "replace")
    lead = len(text) - len(text.lstrip(_BLANKS))
    trail = len(text.rstrip(_BLANKS))
    return f"{keyword}=" + "".join(_escaped(char, at < lead or at >= trail) for at, char in enumerate(text))


def _escaped(char: str, at_an_end: bool) -> str:
    if char == "\0":
        return "\\00"
    return f"\\{char}" if at_an_end or char in _ESCAPED else char


def _values(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tags and contents of successive DER values. Raises ValueError if the data is truncated."""
    at = 0
    while at < len(der):
        if at + 2 > len(der):
            raise ValueError("truncated DER")
        tag, size, at = der[at], der[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(der[at : at + count], "big"), at + count
        if at + size > len(der):
            raise ValueError("truncated DER")
        yield tag, der[at : at + size]
        at += size


def _encoded(tag: int, value: bytes) -> bytes:
    size = len(value)
    if size < 0x80:
        return bytes([tag, size]) + value
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + value


def _dotted(number: bytes) -> str:
    arcs, value = [], 0
    for byte in number:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))

"""Hypothesis strategies for messages of the protocol: any value that a message can hold in a version.

Fields that a version lacks keep their defaults, so that a message equals itself after a round trip. Values are restricted where the
libraries that serve as oracles accept less than the wire: error codes are known, times are between 1970 and 2200, text has no NUL.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from ottla.protocol.codegen import fields_at
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.fields import ArrayOf, Kind, WireField
from ottla.protocol.schema import Message

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6) | st.sampled_from(["x" * 126, "y" * 127, "é" * 80])
_BLOB = st.binary(max_size=12) | st.sampled_from([b"z" * 127, b"z" * 5000])
_TIME_MS = st.just(-1) | st.integers(0, 7_258_118_400_000)
_ERRORS = st.sampled_from([int(code) for code in ErrorCode if code < ErrorCode.GROUP_DELETION_FAILED])  # what the oracles know: 4.3
_RANGES = {"b": 8, "h": 16, "i": 32, "q": 64}


def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Draw instances of a message class with arbitrary values in every field of the version."""
    return _struct(cls, version, 0)


@cache  # a strategy is validated at its first draw
def _struct(cls: type, version: int, depth: int) -> st.SearchStrategy[Any]:
    ordered, tagged, _ = fields_at(cls, version)
    return st.builds(cls, **{field.name: _field(field, version, depth) for field in ordered + tagged})


def _field(field: WireField, version: int, depth: int) -> st.SearchStrategy[Any]:
    values = _value(field.type, field.name, version, depth)
    return st.none() | values if version in field.nullable else values


def _value(type_: Any, name: str, version: int, depth: int) -> st.SearchStrategy[Any]:
    if isinstance(type_, ArrayOf):
        elements = _value(type_.element, "", version, depth + 1)
        sizes = st.lists(elements, max_size=2 if depth else 3)
        return sizes | st.lists(elements, min_size=130, max_size=130) if isinstance(type_.element, Kind) and not depth else sizes
    if not isinstance(type_, Kind):
        return _struct(type_, version, depth)
    if type_.name == "string":
        return _TEXT
    if type_.name in ("bytes", "records"):
        return _BLOB
    if type_.name == "uuid":
        return st.binary(min_size=16, max_size=16) | st.just(bytes(16))
    if type_.name == "bool":
        return st.booleans()
    return _number(type_.fmt, name)


_NEVER_BEFORE_1970 = {"transaction_start_time_ms", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"}
"""The names of fields with a time that may not be negative: one of the libraries rejects negative times, although Kafka sends -1 for
none."""


def _number(fmt: str, name: str) -> st.SearchStrategy[Any]:
    if name.endswith("error_code"):
        return _ERRORS
    if name in _NEVER_BEFORE_1970:
        return _TIME_MS.filter(lambda value: value >= 0)
    if fmt == "q" and (name.endswith("_ms") or "timestamp" in name):
        return _TIME_MS
    if fmt == "d":
        return st.floats(allow_nan=False, allow_infinity=False)
    if fmt in "HI":
        return st.integers(0, 2 ** (16 if fmt == "H" else 32) - 1)
    bits = _RANGES[fmt]
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

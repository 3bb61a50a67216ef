"""Describes a request and its result as text for people: the names in the request, and the errors in the response."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final

from ottla.broker.faults.engine import Exchange
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode

PLACES_MAX: Final = 4
TEXT_CHARS: Final = 200
_STRUCTS_LOOKED_AT: Final = 500
_LONG_STRUCTS: Final = 100
_LONG_ELEMENTS: Final = 1_000


def subject_text(exchange: Exchange) -> str:
    """Return a text with the groups, transactional ids and partitions that a request names. The text is empty if there are none."""
    subject = exchange.subject
    places = [topic if index is None else f"{topic}-{index}" for topic, index in subject.partitions[: PLACES_MAX + 1]]
    names = [f"group {name}" for name in sorted(subject.groups)] + [f"transaction {name}" for name in sorted(subject.transactional_ids)]
    if subject.api is ApiKey.END_TXN:
        names.append("commit" if exchange.request.committed else "abort")
    return joined([*names, *places], None)


def joined(texts: list[str], transactional_id: str | None) -> str:
    """Return the first PLACES_MAX of `texts` joined to one text. If some were omitted, the text ends with their number. If a transactional
    id is given, the text begins with it."""
    more = len(texts) - PLACES_MAX
    text = "; ".join(each[:TEXT_CHARS] for each in texts[:PLACES_MAX]) + (f"; and {more} more" if more > 0 else "")
    return text if not transactional_id else f"transaction {transactional_id[:TEXT_CHARS]}; {text}"


def errors_in(response: Any) -> Iterator[str]:
    """Yield the names of all errors in a response, also in nested structs. Only the first `_STRUCTS_LOOKED_AT` structs are examined."""
    left, looked_at = deque([response]), 0
    while left and looked_at < _STRUCTS_LOOKED_AT:
        struct = left.popleft()
        looked_at += 1
        if not is_dataclass(struct):
            continue
        for name in field_names(struct.__class__):
            value = getattr(struct, name)
            if name.endswith("error_code") and value:
                yield _name_of(value)
            elif isinstance(value, list):
                left.extend(value[:_STRUCTS_LOOKED_AT])
            elif is_dataclass(value):
                left.append(value)


def is_long(response: Any) -> bool:
    """Return whether a response has so many elements that encoding it may take milliseconds: more than `_LONG_STRUCTS` structs, or lists
    with more than `_LONG_ELEMENTS` elements.
    """
    left, elements = deque([response]), 0
    for _ in range(_LONG_STRUCTS):
        if not left:
            return elements > _LONG_ELEMENTS
        struct = left.popleft()
        for name in field_names(struct.__class__):
            value = getattr(struct, name)
            inner = value if isinstance(value, list) else [value]
            elements += len(inner)
            left.extend(each for each in inner[:_LONG_STRUCTS] if is_dataclass(each))
    return True


@cache
def field_names(message: type) -> tuple[str, ...]:
    """Return the names of a message class's fields. They are cached, because code that visits all fields of a response would otherwise
    spend most of its time in `dataclasses.fields`."""
    return tuple(each.name for each in fields(message))


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)

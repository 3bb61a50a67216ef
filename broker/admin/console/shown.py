"""Bytes as a person reads them: JSON, text, or hex. What is longer than asked for is cut, and says so."""

from __future__ import annotations

import json
from typing import Final, Literal

from pydantic import BaseModel, Field

from ottla.protocol.schema import Buffer

_WHITESPACE: Final = frozenset("\t\n\r")
_JSON_MAX: Final = 256 << 10
"""A longer document is not looked into: it is text."""


class BytesShown(BaseModel):
    """A key, a value or a header's value."""

    form: Literal["json", "text", "hex", "avro", "protobuf", "none"] = Field(description="`none`: null, which is not the same as empty")
    text: str = Field(description="the JSON or the text as it was written; two digits a byte for `hex`; JSON for `avro` and `protobuf`")
    size: int = Field(description="the whole of it, in bytes")
    cut: bool = Field(default=False, description="whether `text` is only its beginning")


NONE: Final = BytesShown(form="none", text="", size=0)


def shown(data: Buffer | None, max_bytes: int) -> BytesShown:
    """`data` with no more than `max_bytes` of it in the text."""
    if data is None:
        return NONE
    size, begin = len(data), bytes(data[:max_bytes])
    cut = size > len(begin)
    text = _text(begin, cut=cut)
    if text is None:
        return BytesShown(form="hex", text=begin.hex(), size=size, cut=cut)
    return BytesShown(form="json" if _is_json(bytes(data[:_JSON_MAX]), size) else "text", text=text, size=size, cut=cut)


def _text(data: bytes, *, cut: bool) -> str | None:
    """The text in UTF-8; None where it is none, or has control characters. A cut may go through a character."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if not cut or error.start < len(data) - 3 or error.start == 0:
            return None
        text = data[: error.start].decode()
    return text if all(char.isprintable() or char in _WHITESPACE or ord(char) > 0x9F for char in text) else None


def _is_json(data: bytes, size: int) -> bool:
    """Whether it is a whole object or array: a number or a word alone is text."""
    if size > len(data) or data[:1] not in {b"{", b"["}:
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True

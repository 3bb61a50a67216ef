"""Renders keys and values of records for display: as JSON, text or hex. Bytes beyond the requested length are cut; the result says so."""

from __future__ import annotations

import json
from typing import Final, Literal

from pydantic import BaseModel, Field

from ottla.protocol.schema import Buffer

_WHITESPACE: Final = frozenset("\t\n\r")
_JSON_MAX: Final = 256 << 10
"""The maximum size in bytes of a value that is parsed as JSON. A longer value is shown as text."""


class RenderedBytes(BaseModel):
    """A record's key, value or header value in the form in which the console displays it."""

    form: Literal["json", "text", "hex", "avro", "protobuf", "none"] = Field(description="`none` is null, which differs from empty")
    text: str = Field(description="the JSON or the text as it was written; two digits a byte for `hex`; JSON for `avro` and `protobuf`")
    size: int = Field(description="size of the whole value in bytes")
    cut: bool = Field(default=False, description="whether `text` is only its beginning")


NONE: Final = RenderedBytes(form="none", text="", size=0)


def render(data: Buffer | None, max_bytes: int) -> RenderedBytes:
    """Render at most the first `max_bytes` bytes of `data` for display: as JSON, text or hex."""
    if data is None:
        return NONE
    size, begin = len(data), bytes(data[:max_bytes])
    cut = size > len(begin)
    text = _text(begin, cut=cut)
    if text is None:
        return RenderedBytes(form="hex", text=begin.hex(), size=size, cut=cut)
    return RenderedBytes(form="json" if _is_json(bytes(data[:_JSON_MAX]), size) else "text", text=text, size=size, cut=cut)


def _text(data: bytes, *, cut: bool) -> str | None:
    """Decode the UTF-8 text `data`. Return None if the bytes are not UTF-8 or hold control characters. With `cut`, `data` is the beginning
    of a longer value, and an incomplete last character is dropped."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if not cut or error.start < len(data) - 3 or error.start == 0:
            return None
        text = data[: error.start].decode()
    return text if all(char.isprintable() or char in _WHITESPACE or ord(char) > 0x9F for char in text) else None


def _is_json(data: bytes, size: int) -> bool:
    """Return whether `data` is a whole JSON object or array. A lone number or word counts as text. `size` is the size in bytes of the whole
    value, of which `data` may be only the beginning."""
    if size > len(data) or data[:1] not in {b"{", b"["}:
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True

"""Avro schemas that a user uploads for a topic's keys or values, so that the console shows decoded records.

Rules inside:
- Records are untrusted, so a schema is rejected if a few bytes of a record could cause endless work: a type that contains itself (the bytes
  would choose the depth), an array of items that take no bytes (the bytes would choose the length), and a record with many zero-byte fields
  (nested records multiply them).
- Bytes that do not fit the schema are shown as bytes.
- fastavro is an optional extra; it is imported with the first schema.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, Final

from ottla.broker.admin.console.rendering import RenderedBytes

DECODED_MAX: Final = 256 << 10
"""The maximum size in bytes of a key or value that is decoded with its schema."""
EMPTY_MAX: Final = 10
"""The most values in one Avro record that take no bytes when they are encoded, such as null fields. It limits how much larger the decoded
value can be than the encoded bytes."""
_FRAMED: Final = 5
"""The length in bytes of the prefix that schema registry serializers write before the value: a zero byte and a 4-byte schema id."""
_COMPLEX: Final = frozenset({"record", "error", "enum", "array", "map", "fixed"})


class SchemaRefused(ValueError):
    """The text is not an Avro schema, or with this schema a few bytes of a record could cause endless work when they are decoded. The
    message gives the reason."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A parsed Avro schema, which decodes a topic's keys or values to JSON. `of` parses the schema, and rejects one with which a few bytes
    of a record could cause endless work."""

    text: str
    parsed: Any

    @staticmethod
    def of(text: str) -> AvroSchema:
        """Parse an Avro schema from its JSON text. Raises SchemaRefused for an invalid or dangerous schema (one with which a few bytes
        cause endless work), ImportError if fastavro is not installed."""
        from fastavro import parse_schema  # noqa: PLC0415 # an extra, imported with the first schema

        try:
            parsed = parse_schema(json.loads(text))
            _check(parsed, {}, ())
        except SchemaRefused:
            raise
        except Exception as error:  # the library raises many types for bad input
            raise SchemaRefused(f"this is no Avro schema: {type(error).__name__}: {error}") from error
        return AvroSchema(text, parsed)

    def render(self, data: bytes, max_bytes: int) -> RenderedBytes | None:
        """Return the decoded value as JSON text of at most `max_bytes` bytes. Return None if `data` does not fit the schema, has bytes left
        after the value, or is longer than DECODED_MAX. The prefix of schema registry serializers is skipped if there is one."""
        if len(data) > DECODED_MAX:
            return None
        framed = data[_FRAMED:] if data[:1] == b"\0" and len(data) > _FRAMED else None
        for candidate in (framed, data):
            if candidate is not None and (found := self._read(candidate)) is not None:
                text = found.encode(errors="replace")[:max_bytes].decode(errors="ignore")
                return RenderedBytes(form="avro", text=text, size=len(data), cut=len(text) < len(found))
        return None

    def _read(self, data: bytes) -> str | None:
        from fastavro import schemaless_reader  # noqa: PLC0415 # an extra, imported with the first schema

        source = io.BytesIO(data)
        try:
            value = schemaless_reader(source, self.parsed, None)
            whole = source.tell() == len(data)
            return json.dumps(value, default=_plain, ensure_ascii=False) if whole else None
        except Exception:  # noqa: BLE001 # untrusted bytes: whatever the library raises, they do not fit
            return None


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _check(schema: Any, names: dict[str, int], inside: tuple[str, ...]) -> int:
    """Check that a few bytes cannot cause endless work when they are decoded with this type; raises SchemaRefused if they can. Return 0 if
    every value of the type takes at least one byte; otherwise the number of values (the value itself and its fields) that a decoder makes
    of zero bytes.

    `names` holds the results of the named types that were checked before; `inside` has the names of the enclosing types.
    """
    if isinstance(schema, list):
        for each in schema:
            _check(each, names, inside)
        return 0
    if isinstance(schema, str):
        if schema in inside:
            raise SchemaRefused(f"{schema} contains itself: such a type is not safe for decoding untrusted bytes")
        return names.get(schema, int(schema == "null"))
    kind, name = schema["type"], schema.get("name", "")
    if not isinstance(kind, str) or kind not in _COMPLEX:
        return _check(kind, names, inside)
    empty = _values_of_nothing(kind, schema, names, (*inside, name) if name else inside)
    if name:
        names[name] = empty
    return empty


def _values_of_nothing(kind: str, schema: dict[str, Any], names: dict[str, int], inside: tuple[str, ...]) -> int:
    if kind in {"record", "error"}:
        empty = [_check(field["type"], names, inside) for field in schema["fields"]]
        if sum(empty) > EMPTY_MAX:
            raise SchemaRefused(
                f"more than {EMPTY_MAX} values in {schema['name']} take no bytes: such a type is not safe for decoding untrusted bytes"
            )
        return 1 + sum(empty) if all(empty) else 0
    if kind == "array" and _check(schema["items"], names, inside):
        raise SchemaRefused("an array's items take no bytes: such a type is not safe for decoding untrusted bytes")
    if kind == "map":
        _check(schema["values"], names, inside)
    return int(kind == "fixed" and schema["size"] == 0)

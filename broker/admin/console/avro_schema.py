"""Avro schemas that somebody gave for a topic's keys or values: records of it are shown as what they say.

Rules inside: what is decoded comes from anybody who may write, so a schema is refused by which a few bytes could ask for endless work: a
type that contains itself (whose depth the bytes would choose), an array of what takes no bytes (whose length they would), and a record of
many fields that take none (which multiply, where they are records again). Bytes that do not fit are shown as bytes. The library is an
extra, imported with the first schema.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, Final

from ottla.broker.admin.console.shown import BytesShown

DECODED_MAX: Final = 256 << 10
"""Longer bytes are not decoded."""
EMPTY_MAX: Final = 10
"""Values in a record that take no bytes: so much more than its bytes it may come to."""
_FRAMED: Final = 5
"""A zero and four bytes of a schema's id, which the serializers of schema registries put before the value."""
_COMPLEX: Final = frozenset({"record", "error", "enum", "array", "map", "fixed"})


class SchemaRefused(ValueError):
    """Not a schema, or not one by which bytes of strangers are decoded; the text says why."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """One that is used. Raises SchemaRefused, ImportError where fastavro is not installed."""

    text: str
    parsed: Any

    @staticmethod
    def of(text: str) -> AvroSchema:
        """From its JSON."""
        from fastavro import parse_schema  # noqa: PLC0415 # an extra, imported with the first schema

        try:
            parsed = parse_schema(json.loads(text))
            _check(parsed, {}, ())
        except SchemaRefused:
            raise
        except Exception as error:  # whatever a library makes of what somebody typed
            raise SchemaRefused(f"this is no Avro schema: {type(error).__name__}: {error}") from error
        return AvroSchema(text, parsed)

    def shown(self, data: bytes, max_bytes: int) -> BytesShown | None:
        """What the bytes say, as JSON; None where they are not of this schema. Every byte has to be used."""
        if len(data) > DECODED_MAX:
            return None
        framed = data[_FRAMED:] if data[:1] == b"\0" and len(data) > _FRAMED else None
        for candidate in (framed, data):
            if candidate is not None and (found := self._read(candidate)) is not None:
                text = found.encode(errors="replace")[:max_bytes].decode(errors="ignore")
                return BytesShown(form="avro", text=text, size=len(data), cut=len(text) < len(found))
        return None

    def _read(self, data: bytes) -> str | None:
        from fastavro import schemaless_reader  # noqa: PLC0415 # as above

        source = io.BytesIO(data)
        try:
            value = schemaless_reader(source, self.parsed, None)
            whole = source.tell() == len(data)
            return json.dumps(value, default=_plain, ensure_ascii=False) if whole else None
        except Exception:  # noqa: BLE001 # bytes of anybody: whatever the library says, they do not fit
            return None


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _check(schema: Any, names: dict[str, int], inside: tuple[str, ...]) -> int:
    """How many values there are in one of its values that takes no bytes; 0 where each takes some. Raises SchemaRefused.

    `names` has the answer for types met before, `inside` those around.
    """
    if isinstance(schema, list):
        for each in schema:
            _check(each, names, inside)
        return 0
    if isinstance(schema, str):
        if schema in inside:
            raise SchemaRefused(f"{schema} contains itself: bytes of strangers are not decoded by such a type")
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
                f"more than {EMPTY_MAX} values in {schema['name']} take no bytes: bytes of strangers are not decoded by such a type"
            )
        return 1 + sum(empty) if all(empty) else 0
    if kind == "array" and _check(schema["items"], names, inside):
        raise SchemaRefused("an array's items take no bytes: bytes of strangers are not decoded by such a type")
    if kind == "map":
        _check(schema["values"], names, inside)
    return int(kind == "fixed" and schema["size"] == 0)

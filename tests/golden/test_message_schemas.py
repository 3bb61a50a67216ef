"""Ottla's messages are declared as in the schemas from which Apache Kafka generates its own, in every version that Kafka has: the names of
the fields and their order, types, defaults and tags, and which may be null."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from ottla.protocol.fields import ArrayOf, Kind, WireField, records_, wire_fields
from ottla.protocol.messages.registry import declared_keys, request_class, response_class
from ottla.protocol.schema import Message
from tests.support.apache_kafka import jars_or_skip

Schema = dict[str, Any]
CLASSES = [find(key) for key in declared_keys() for find in (request_class, response_class)]


@cache
def schemas() -> Mapping[str, Schema]:
    """Return Kafka's message schemas by name."""
    (jar,) = jars_or_skip().glob("kafka-clients-*.jar")
    with zipfile.ZipFile(jar) as packed:
        texts = [packed.read(name).decode() for name in packed.namelist() if re.fullmatch(r"common/message/\w+\.json", name)]
    found = [json.loads(re.sub(r'^((?:[^"\n]|"[^"\n]*")*?)//.*$', r"\1", text, flags=re.MULTILINE)) for text in texts]
    return {schema["name"]: schema for schema in found}


def versions(text: str) -> range:
    """Parse Kafka's notation of a version range, such as "2-7", "4+" or "none"."""
    if text == "none":
        return range(0)
    first, _, last = text.replace("+", "-1000").partition("-")
    return range(int(first), int(last or first) + 1)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def kafkas_default(field: Schema) -> Any:
    """Return the default of a field in a schema, as Ottla's fields hold it; None for records, and for a struct whose fields have their
    defaults."""
    kind, default = field["type"], field.get("default")
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return str(default).lower() == "true"
    if kind == "float64":
        return float(default or 0)
    if re.fullmatch(r"u?int\d+", kind):
        return int(str(default or 0), 0)
    return {"string": default or "", "uuid": bytes(16), "bytes": b""}.get(kind)


def kafkas_fields(fields: Sequence[Schema], common: Mapping[str, Sequence[Schema]], version: int) -> list[Any]:
    """Return for each field of a version, in wire order: name, whether it is an array, type (a struct's fields), whether it may be null,
    tag and default."""
    out = []
    for field in fields:
        if version not in versions(field["versions"]):
            continue
        base = field["type"].removeprefix("[]")
        inner = field.get("fields") or common.get(base)
        kind = base if inner is None else kafkas_fields(inner, common, version)
        tagged = version in versions(field.get("taggedVersions", "none"))
        nullable = version in versions(field.get("nullableVersions", "none"))
        tag = field["tag"] if tagged else None
        out.append((snake(field["name"]), field["type"].startswith("[]"), kind, nullable, tag, kafkas_default(field)))
    return out


def our_default(field: WireField) -> Any:
    if field.type is records_ or not isinstance(field.type, Kind | ArrayOf):
        return None
    return field.default() if callable(field.default) else field.default


def our_fields(cls: type, version: int) -> list[Any]:
    """Return the same for the fields of one of Ottla's classes."""
    out = []
    for field in wire_fields(cls):
        if version not in field.versions:
            continue
        base = field.type.element if isinstance(field.type, ArrayOf) else field.type
        kind = base.name if isinstance(base, Kind) else our_fields(base, version)
        out.append((field.name, isinstance(field.type, ArrayOf), kind, version in field.nullable, field.tag, our_default(field)))
    return out


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_message_declaration_equals_kafkas_schema(cls: type[Message]) -> None:
    schema = schemas()[cls.__name__]
    unstable = schema.get(
        "latestVersionUnstable", schemas().get(cls.__name__.replace("Response", "Request"), {}).get("latestVersionUnstable", False)
    )
    known = versions(schema["validVersions"])[: -1 if unstable else None]
    assert (schema["apiKey"], known[0], known[-1]) == (cls.API_KEY, cls.MIN_VERSION, cls.MAX_VERSION)
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
    for version in known:
        assert (version >= cls.FLEXIBLE_SINCE) == (version in versions(schema["flexibleVersions"]))
        assert our_fields(cls, version) == kafkas_fields(schema["fields"], common, version), version

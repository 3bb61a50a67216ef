"""Two independent implementations of Kafka's protocol behind one interface, to compare our bytes with theirs.

Messages are copied field by field in wire order, so that a field of ours with another position, name or versions than in the library is
noticed. kio's native decoder aborts the process for a malicious array length, so it only gets bytes that one of the encoders made.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import typing
import uuid
import warnings
from typing import Any, Protocol

from ottla.protocol.codegen import fields_at
from ottla.protocol.fields import ArrayOf, Kind, WireField, wire_fields
from ottla.protocol.fields import uuid as uuid_kind
from ottla.protocol.schema import ZERO_UUID, Message

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)

_EARLIER_NAMES = {
    ("TxnOffsetCommitRequest", "generation_id_or_member_epoch"): "generation_id",
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag_legacy"): "acceptable_recovery_lag",
}
"""The earlier names, which the libraries use, of fields that Kafka renamed after the libraries were generated: (message class, field) to
earlier name."""


class Oracle(Protocol):
    """A library that implements Kafka's protocol, as a reference for our encoders and decoders."""

    name: str

    def knows(self, cls: type[Message], version: int) -> bool:
        """Return whether the library has this message at this version."""
        ...

    def encode(self, msg: Message, version: int) -> bytes:
        """Return the library's bytes for a message with the same contents."""
        ...

    def header(self, cls: type[Message], version: int, correlation_id: int, client_id: str | None) -> bytes:
        """Return the library's header of a request or response of this class."""
        ...

    def decode(self, cls: type[Message], data: bytes, version: int) -> Message:
        """Decode the bytes with the library, and convert the result to a message of ours."""
        ...


class Kio:
    """kio: classes generated from Kafka's schemas for each version, decoded in Rust."""

    name = "kio"

    def knows(self, cls: type[Message], version: int) -> bool:
        from kio.index import KioIndexError

        try:
            self._schema(cls, version)
        except KioIndexError:
            return False
        return True

    def encode(self, msg: Message, version: int) -> bytes:
        from kio.serial import entity_writer

        schema = self._schema(type(msg), version)
        out = io.BytesIO()
        entity_writer(schema)(out, self._to(msg, schema, version))
        return out.getvalue()

    def header(self, cls: type[Message], version: int, correlation_id: int, client_id: str | None) -> bytes:
        from kio.serial import entity_writer

        schema = self._schema(cls, version).__header_schema__
        fields = {"request_api_key": cls.API_KEY, "request_api_version": version, "correlation_id": correlation_id, "client_id": client_id}
        out = io.BytesIO()
        entity_writer(schema)(out, schema(**{field.name: fields[field.name] for field in dataclasses.fields(schema)}))
        return out.getvalue()

    def decode(self, cls: type[Message], data: bytes, version: int) -> Message:
        from kio.serial import entity_reader

        entity, size = entity_reader(self._schema(cls, version))(data, 0)
        assert size == len(data)
        return self._from(entity, cls, version)

    def _schema(self, cls: type[Message], version: int) -> Any:
        from kio.index import load_request_schema, load_response_schema

        load = load_request_schema if cls.__name__.endswith("Request") else load_response_schema
        return load(cls.API_KEY, version)

    def _pairs(self, cls: type, entity_type: Any, version: int) -> list[tuple[WireField, Any]]:
        ours = [field for field in wire_fields(cls) if version in field.versions]
        theirs = dataclasses.fields(entity_type)
        # kio drops the unit from the name of a duration and makes it a timedelta, and avoids the name of Python's `id`.
        assert [_earlier_name(cls, field).removesuffix("_ms") for field in ours] == [
            field.name.removesuffix("_ms").removesuffix("_") for field in theirs
        ]
        return list(zip(ours, theirs, strict=True))

    def _to(self, value: Any, entity_type: Any, version: int) -> Any:
        pairs = self._pairs(type(value), entity_type, version)
        return entity_type(**{their.name: self._value_to(getattr(value, our.name), our.type, their, version) for our, their in pairs})

    def _value_to(self, value: Any, type_: Any, their: Any, version: int) -> Any:
        from kio.schema.errors import ErrorCode

        if isinstance(type_, ArrayOf):
            return None if value is None else tuple(self._value_to(item, type_.element, their, version) for item in value)
        if value is None:
            return None
        if not isinstance(type_, Kind):
            return self._to(value, _entity_type(their.type), version)
        kind = their.metadata.get("kafka_type")
        if kind == "error_code":
            return ErrorCode(value)
        if kind == "uuid":
            return None if value == ZERO_UUID else uuid.UUID(bytes=value)
        if kind.startswith("timedelta"):
            return value * _MILLISECOND
        if kind.startswith("datetime"):
            return None if value == -1 and type(None) in typing.get_args(their.type) else _EPOCH + value * _MILLISECOND
        return value

    def _from(self, entity: Any, cls: type, version: int) -> Any:
        pairs = self._pairs(cls, type(entity), version)
        return cls(**{our.name: self._value_from(getattr(entity, their.name), our.type, their, version) for our, their in pairs})

    def _value_from(self, value: Any, type_: Any, their: Any, version: int) -> Any:
        if isinstance(type_, ArrayOf):
            return None if value is None else [self._value_from(item, type_.element, their, version) for item in value]
        if not isinstance(type_, Kind):
            return None if value is None else self._from(value, type_, version)
        kind = their.metadata.get("kafka_type")
        if kind == "uuid":
            return ZERO_UUID if value is None else value.bytes
        if kind.startswith("timedelta"):
            return value // _MILLISECOND
        if kind.startswith("datetime"):
            return -1 if value is None else (value - _EPOCH) // _MILLISECOND
        return value


class KafkaPython:
    """kafka-python 3: one class per message, with encoders compiled from Kafka's schemas."""

    name = "kafka-python"

    def knows(self, cls: type[Message], version: int) -> bool:
        schema = _kafka_python_classes().get(cls.__name__)
        return schema is not None and schema._valid_versions[0] <= version <= schema._valid_versions[1]

    def encode(self, msg: Message, version: int) -> bytes:
        schema = _kafka_python_classes()[type(msg).__name__]
        return bytes(self._to(msg, schema, version).encode(version=version))

    def header(self, cls: type[Message], version: int, correlation_id: int, client_id: str | None) -> bytes:
        schema = _kafka_python_classes()[cls.__name__]
        item = schema(version=version)
        item.with_header(correlation_id, client_id)
        return bytes(item.encode_header(flexible=schema.flexible_version_q(version)))

    def decode(self, cls: type[Message], data: bytes, version: int) -> Message:
        return self._from(_kafka_python_classes()[cls.__name__].decode(data, version=version), cls, version)

    def _pairs(self, cls: type, data_class: Any, version: int) -> list[tuple[WireField, Any]]:
        ours = [field for field in wire_fields(cls) if version in field.versions]
        theirs = [field for field in data_class._struct.fields.values() if field.for_version_q(version)]
        # Most authorized operations are bit sets with the same name there.
        assert [field.name for field in theirs] == [
            "authorized_operations" if _is_bits(their) else _earlier_name(cls, our) for our, their in zip(ours, theirs, strict=True)
        ]
        return list(zip(ours, theirs, strict=True))

    def _to(self, value: Any, data_class: Any, version: int) -> Any:
        tagged = {field.name for field in fields_at(type(value), version)[1]}
        given = {}
        for our, their in self._pairs(type(value), data_class, version):
            item = getattr(value, our.name)
            # The library writes every given tagged field; the caller has to leave out defaults.
            if our.name not in tagged or item != (our.default() if callable(our.default) else our.default):
                given[their.name] = self._value_to(item, our.type, their, version)
        return data_class(version=version, **given)

    def _value_to(self, value: Any, type_: Any, their: Any, version: int) -> Any:
        if value is None:
            return None
        if isinstance(type_, ArrayOf):
            return [self._value_to(item, type_.element, their, version) for item in value]
        if not isinstance(type_, Kind):
            return self._to(value, their.data_class, version)
        if _is_bits(their):
            bits = {bit for bit in range(32) if value >> bit & 1}
            return None if bits == {31} else bits
        return uuid.UUID(bytes=value) if type_ is uuid_kind else value

    def _from(self, item: Any, cls: type, version: int) -> Any:
        tagged = {field.name for field in fields_at(cls, version)[1]}
        out = cls()
        for our, their in self._pairs(cls, type(item), version):
            # A tagged field that was not on the wire has no value.
            if our.name not in tagged or their.name in (item.tags or ()):
                setattr(out, our.name, self._value_from(getattr(item, their.name), our.type, version, bits=_is_bits(their)))
        return out

    def _value_from(self, value: Any, type_: Any, version: int, *, bits: bool = False) -> Any:
        if type_ is uuid_kind:
            return ZERO_UUID if value is None else value.bytes
        if bits:
            return sum((1 << bit) - (1 << 32 if bit == 31 else 0) for bit in ({31} if value is None else value))
        if value is None:
            return None
        if isinstance(type_, ArrayOf):
            return [self._value_from(item, type_.element, version) for item in value]
        if not isinstance(type_, Kind):
            return self._from(value, type_, version)
        return value


def _entity_type(annotation: Any) -> Any:
    """Return the dataclass inside `X`, `X | None` or `tuple[X, ...]`."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    return next((found for found in map(_entity_type, typing.get_args(annotation)) if found is not None), None)


def _earlier_name(cls: type, field: WireField) -> str:
    return _EARLIER_NAMES.get((cls.__name__, field.name), field.name)


def _is_bits(field: Any) -> bool:
    return getattr(getattr(field, "_type", None), "__name__", "") == "BitField"


def _kafka_python_classes() -> dict[str, Any]:
    global _classes  # noqa: PLW0603 # loaded once, when the first oracle test runs
    if not _classes:
        with warnings.catch_warnings():
            # kafka-python uses importlib.resources.read_text, which is deprecated in Python 3.11 but not in 3.13.
            warnings.simplefilter("ignore", DeprecationWarning)
            from kafka.protocol import admin, consumer, metadata, producer, sasl

        for module in (admin, consumer, metadata, producer, sasl):
            _classes = {**_classes, **{name: value for name, value in vars(module).items() if name.endswith(("Request", "Response"))}}
    return _classes


_classes: dict[str, Any] = {}

ORACLES: tuple[Oracle, ...] = (Kio(), KafkaPython())

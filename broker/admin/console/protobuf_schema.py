"""Protobuf messages that somebody described for a topic's keys or values: records of it are shown as what they say.

Rules inside: a description is what `protoc --include_imports --descriptor_set_out` writes, and the name of a message in it. How deep bytes
may go is the library's own limit (100), and of how many parts there is one here. The library is an extra, imported with the first
description.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from ottla.broker.admin.console.avro_schema import DECODED_MAX, SchemaRefused
from ottla.broker.admin.console.shown import BytesShown
from ottla.broker.admin.protobuf_parts import parts_of

DESCRIPTORS_MAX: Final = 512 << 10
PARTS_MAX: Final = 20_000
"""Messages and repeated values in one value: some 50 ms."""
_MAGIC_AND_ID: Final = 5
_INDEXES_MAX: Final = 20


class ProtobufIn(BaseModel):
    """A message, and the files that describe it."""

    model_config = ConfigDict(extra="forbid")

    descriptors: Annotated[str, Field(max_length=DESCRIPTORS_MAX * 4 // 3 + 4, description="a FileDescriptorSet, in base64")]
    message: Annotated[str, Field(max_length=500, description="its full name, shop.Order")]


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """One that is used."""

    text: str
    """The message's name."""
    message: Any

    @staticmethod
    def of(given: ProtobufIn) -> ProtobufSchema:
        """Raises SchemaRefused, ImportError where protobuf is not installed."""
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415 # an extra

        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(given.descriptors, validate=True))
            pool = descriptor_pool.DescriptorPool()
            for each in files.file:
                pool.Add(each)
            message = message_factory.GetMessageClass(pool.FindMessageTypeByName(given.message))
        except Exception as error:  # whatever a library makes of what somebody sent
            raise SchemaRefused(f"this describes no message {given.message!r}: {type(error).__name__}: {error}") from error
        return ProtobufSchema(given.message, message)

    def shown(self, data: bytes, max_bytes: int) -> BytesShown | None:
        """What the bytes say, as JSON; None where they are no such message, or too much of it."""
        from google.protobuf import json_format  # noqa: PLC0415 # as above

        if len(data) > DECODED_MAX:
            return None
        try:
            message = self.message.FromString(_without_frame(data))
            if parts_of(message, PARTS_MAX) > PARTS_MAX:
                return None
            found = json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
        except Exception:  # noqa: BLE001 # bytes of anybody: whatever the library says, they do not fit
            return None
        text = found.encode(errors="replace")[:max_bytes].decode(errors="ignore")
        return BytesShown(form="protobuf", text=text, size=len(data), cut=len(text) < len(found))


def _without_frame(data: bytes) -> bytes:
    """Without what the serializers of schema registries put first: a zero, which begins no message, an id, and which message of its file
    it is (a count and so many numbers, zigzag; a lone 0 for the first)."""
    if data[:1] != b"\0" or len(data) <= _MAGIC_AND_ID:
        return data
    at = _MAGIC_AND_ID
    count, at = _varint(data, at)
    for _ in range(min(count >> 1, _INDEXES_MAX)):
        _, at = _varint(data, at)
    return data[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned one of at most five bytes, and where it ends. Raises IndexError."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, at

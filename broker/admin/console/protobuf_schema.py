"""Protobuf descriptors that a user uploads for a topic's keys or values, so that the console shows decoded records.

Rules inside:
- A schema is a FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` writes it, and a message's full name.
- Records are untrusted. The library limits nesting (100 levels); `PARTS_MAX` limits the number of messages and values.
- protobuf is an optional extra; it is imported with the first schema.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from ottla.broker.admin.console.avro_schema import DECODED_MAX, SchemaRefused
from ottla.broker.admin.console.rendering import RenderedBytes
from ottla.broker.admin.protobuf_parts import parts_of

DESCRIPTORS_MAX: Final = 512 << 10
PARTS_MAX: Final = 20_000
"""The maximum number of messages and values in one decoded key or value. Decoding that many takes about 50 ms."""
_MAGIC_AND_ID: Final = 5
_INDEXES_MAX: Final = 20


class ProtobufIn(BaseModel):
    """An uploaded Protobuf schema: the name of a message type, and the descriptors of the files that define it."""

    model_config = ConfigDict(extra="forbid")

    descriptors: Annotated[str, Field(max_length=DESCRIPTORS_MAX * 4 // 3 + 4, description="a FileDescriptorSet, in base64")]
    message: Annotated[str, Field(max_length=500, description="the message's full name, such as shop.Order")]


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A compiled Protobuf message type, which decodes a topic's keys or values."""

    text: str
    """The full name of the message type, including its package."""
    message: Any

    @staticmethod
    def of(given: ProtobufIn) -> ProtobufSchema:
        """Compile the uploaded descriptors to the message type that `given` names. Raises SchemaRefused if they are invalid or lack the
        type, ImportError if protobuf is not installed."""
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415 # an extra

        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(given.descriptors, validate=True))
            pool = descriptor_pool.DescriptorPool()
            for each in files.file:
                pool.Add(each)
            message = message_factory.GetMessageClass(pool.FindMessageTypeByName(given.message))
        except Exception as error:  # the library raises many types for bad input
            raise SchemaRefused(f"this describes no message {given.message!r}: {type(error).__name__}: {error}") from error
        return ProtobufSchema(given.message, message)

    def render(self, data: bytes, max_bytes: int) -> RenderedBytes | None:
        """Return the decoded message as JSON text of at most `max_bytes` bytes. Return None if `data` is not such a message, is longer than
        DECODED_MAX, or contains more than PARTS_MAX messages and values."""
        from google.protobuf import json_format  # noqa: PLC0415 # an extra

        if len(data) > DECODED_MAX:
            return None
        try:
            message = self.message.FromString(_without_frame(data))
            if parts_of(message, PARTS_MAX) > PARTS_MAX:
                return None
            found = json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
        except Exception:  # noqa: BLE001 # untrusted bytes: whatever the library raises, they do not fit
            return None
        text = found.encode(errors="replace")[:max_bytes].decode(errors="ignore")
        return RenderedBytes(form="protobuf", text=text, size=len(data), cut=len(text) < len(found))


def _without_frame(data: bytes) -> bytes:
    """Return the message without the prefix of schema registry serializers. The prefix is a zero byte (no message begins with one), a
    4-byte schema id, and the position of the message type in its file: a count and as many indexes, as zigzag varints; for the first type
    only a 0."""
    if data[:1] != b"\0" or len(data) <= _MAGIC_AND_ID:
        return data
    at = _MAGIC_AND_ID
    count, at = _varint(data, at)
    for _ in range(min(count >> 1, _INDEXES_MAX)):
        _, at = _varint(data, at)
    return data[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned varint (at most five bytes) at position `at`, and the position after it. Raises IndexError if `data` ends."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, at

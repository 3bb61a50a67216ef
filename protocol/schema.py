"""Messages as dataclasses, and `encode`/`decode` for them. The class is the specification; its encoder and decoder are compiled from it.

Example of a declaration of a record of an internal topic (a request or response looks the same):

    @wire_struct
    class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
        offset: int = int64()
        leader_epoch: int = int32("3+", default=-1)
        metadata: str = string()
        commit_timestamp: int = int64()
        topic_id: bytes = uuid("4+", tag=0)

The order of the fields is the order on the wire. A nested struct is a `wire_struct`, too, and has the version and flexibility of the
message that contains it. A field that does not exist in a version has its default after decoding and is not encoded, whatever its value:
the caller chooses a version that has the field.

`encode` and `decode` process the body only. Keys and values of internal topics begin with an int16: the record type before a key (which is
never flexible), the version before a value; `encode_prefixed` and `read_prefix` process this int16 as well.

Encoders and decoders are compiled on first use, per version (`ottla.protocol.encoder`, `ottla.protocol.decoder`), and cached.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from ottla.protocol.decoder import compile_decoder
from ottla.protocol.encoder import compile_encoder
from ottla.protocol.errors import MalformedMessage, ProtocolError
from ottla.protocol.fields import (
    Versions,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    records_,
    string,
    struct,
    uint16,
    uint32,
    uuid,
)
from ottla.protocol.wire import Buffer
from ottla.protocol.wire_struct import wire_struct

__all__ = [
    "ZERO_UUID",
    "Buffer",
    "Message",
    "array",
    "boolean",
    "bytes_",
    "decode",
    "decoder",
    "encode",
    "encode_prefixed",
    "encoder",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "read_prefix",
    "records_",
    "string",
    "struct",
    "uint16",
    "uint32",
    "uuid",
    "wire_struct",
]

ZERO_UUID = bytes(16)
"""Kafka's `Uuid.ZERO_UUID`: no id."""

_PREFIX = _struct.Struct(">h")


class Message:
    """Base class of requests, responses and records. `FLEXIBLE_SINCE` is the first flexible version; if no version is flexible, it is
    greater than every version."""

    __slots__ = ()

    API_KEY: ClassVar[int] = -1
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_SINCE: ClassVar[int]

    def __init_subclass__(cls, *, versions: str = "", flexible: str = "none", api_key: int = -1) -> None:
        # dataclass(slots=True) creates the class a second time: without these arguments, and with the attributes set by the first time.
        if not versions:
            return
        known = Versions.parse(versions)
        flexible_versions = Versions.parse(flexible)
        cls.API_KEY = api_key
        cls.MIN_VERSION = known.first
        cls.MAX_VERSION = known.last
        cls.FLEXIBLE_SINCE = flexible_versions.first if flexible_versions.last else known.last + 1


M = TypeVar("M", bound=Message)
Encode = Callable[[Any, bytearray, list[Buffer]], bytearray]
Decode = Callable[[memoryview, int, int], Any]


_encoders: dict[tuple[type, int, str | None], Encode] = {}
_decoders: dict[tuple[type, int, bool, str | None, int | None], Decode] = {}


def encoder(message: type[Message], version: int, *, last: str | None = None) -> Encode:
    """Return the compiled encoder of a message version, `encode(msg, w, parts) -> w`. It appends the body of `msg` to the bytearray `w`,
    and finished buffers to `parts` (see `ottla.protocol.encoder`). Raises ValueError for an unknown version.

    With `last`, the encoder writes only the fields up to and including the field `last`.
    """
    known = _encoders.get((message, version, last))
    if known is None:
        flexible = version >= message.FLEXIBLE_SINCE
        known = _encoders[message, version, last] = compile_encoder(message, _known(message, version), flexible, last=last)
    return known


def decoder(message: type[Message], version: int, *, exact: bool = True, last: str | None = None, elements: int | None = None) -> Decode:
    """Return the compiled decoder of a message version, `decode(buf, pos, end) -> message` (see `ottla.protocol.decoder`). Raises
    ValueError for an unknown version.

    With `exact`, bytes after the message are an error; otherwise they are ignored. With `last`, the decoder reads only the fields up to and
    including the field `last`, and returns (message, position after it). `elements` limits the elements of all arrays together; without
    `exact` it is ignored, because requests have a limit of their own (REQUEST_ELEMENTS).
    """
    known = _decoders.get((message, version, exact, last, elements))
    if known is None:
        flexible = version >= message.FLEXIBLE_SINCE
        known = compile_decoder(message, _known(message, version), flexible, exact=exact, last=last, elements=elements)
        _decoders[message, version, exact, last, elements] = known
    return known


def encode(msg: Message, version: int) -> bytes:
    """Return the encoded body of `msg` at `version`. Raises EncodeError for a value that its field cannot hold."""
    parts: list[Buffer] = []
    last = encoder(type(msg), version)(msg, bytearray(), parts)
    return b"".join((*parts, last))


def decode(cls: type[M], data: Buffer, version: int, elements: int | None = None) -> M:
    """Decode a body that takes all of `data`. Raises ProtocolError for invalid bytes, bytes after the body, an unknown version, and, before
    it allocates the arrays, if they have more than `elements` elements in total (None: no limit)."""
    if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    msg: M = decoder(cls, version, elements=elements)(memoryview(data), 0, len(data))
    return msg


def encode_prefixed(msg: Message, version: int, prefix: int | None = None) -> bytes:
    """Return an int16 and the encoded body of `msg`, as in the keys and values of internal topics. For a key, `prefix` is its record type.
    For a value, `prefix` is None, and the int16 is `version`."""
    return _PREFIX.pack(version if prefix is None else prefix) + encode(msg, version)


def read_prefix(data: Buffer) -> tuple[int, memoryview]:
    """Split a key or value of an internal topic. Return (the int16 at its start, the body after it). Raises MalformedMessage if it has
    fewer than two bytes."""
    if len(data) < _PREFIX.size:
        raise MalformedMessage("record of an internal topic", "prefix", 0, f"{len(data)} bytes")
    return _PREFIX.unpack_from(data)[0], memoryview(data)[_PREFIX.size :]


def _known(message: type[Message], version: int) -> int:
    if not message.MIN_VERSION <= version <= message.MAX_VERSION:
        raise ValueError(f"{message.__name__} has no version {version}")
    return version

"""Encodes and decodes whole requests and responses: size, header and body, by API key and version.

A frame is the bytes after the 4-byte size. Encoders return a list of buffers to be written in order, beginning with the size; large
`records` are separate buffers, without a copy. Decoders raise only `ProtocolError`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import MalformedHeader, UnsupportedVersion
from ottla.protocol.headers import RequestHeader, read_request_header, read_response_header, request_header, skip_header_tags
from ottla.protocol.messages.registry import request_class, response_class
from ottla.protocol.schema import Decode, Encode, Message, decoder, encoder
from ottla.protocol.wire import Bad, Buffer, read_uvarint

__all__ = [
    "Request",
    "RequestHeader",
    "decode_request",
    "decode_response",
    "decode_response_head",
    "encode_request",
    "encode_response",
    "encode_response_head",
    "request_class",
    "response_class",
]

_SIZE = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_API_AND_CORRELATION_BYTES = 8
_SIZE_BYTES = _SIZE.size
_SIZE_AND_CORRELATION_ID = struct.Struct(">ii")


@dataclass(slots=True)
class Request:
    """A request with its header. `body` is the dataclass of its API (`ottla.protocol.messages`)."""

    header: RequestHeader
    body: Any


_request_decoders: dict[tuple[int, int], tuple[Decode, bool]] = {}
_response_encoders: dict[tuple[int, int], tuple[Encode, bool]] = {}


def decode_request(frame: Buffer) -> Request:
    """Decode a frame that contains a request. Bytes after the request's end are ignored, as in Kafka (see `ottla.protocol.decoder`).

    Raises UnsupportedVersion, with the header's fields, for an API or version without a message class, and another ProtocolError for
    invalid bytes.
    """
    buf = frame if type(frame) is memoryview else memoryview(frame)
    header, pos = read_request_header(buf)
    known = _request_decoders.get((header.api_key, header.api_version))
    decode, flexible = known or _request_decoder(header)
    if flexible:
        pos = skip_header_tags(buf, pos)
    return Request(header, decode(buf, pos, len(buf)))


def acks_of(head: Buffer, version: int) -> int | None:
    """Return `acks` of a Produce request that begins with `head`, or None if `head` does not contain it yet. A request with acks 0 has no
    response. Only what precedes `acks` is read."""
    message = request_class(ApiKey.PRODUCE)
    try:
        at = _API_AND_CORRELATION_BYTES + 2 + max(0, _SHORT.unpack_from(head, _API_AND_CORRELATION_BYTES)[0])  # after the client id
        if version >= message.FLEXIBLE_SINCE:
            at = skip_header_tags(memoryview(head), at)
            length, at = read_uvarint(head, at)
            at += max(0, length - 1)
        elif version >= 3:
            at += 2 + max(0, _SHORT.unpack_from(head, at)[0])
        acks: int = _SHORT.unpack_from(head, at)[0]
    except (MalformedHeader, Bad, IndexError, struct.error):
        return None
    return acks


def encode_response(api_key: int, version: int, correlation_id: int, msg: Message) -> list[Buffer]:
    """Return the buffers of a response: 4-byte size, header and body. Raises EncodeError for a value that its field cannot hold, ValueError
    for an unknown version."""
    known = _response_encoders.get((api_key, version))
    encode, flexible = known or _response_encoder(api_key, version)
    head = bytearray(_SIZE_AND_CORRELATION_ID.pack(0, correlation_id))
    if flexible:
        head.append(0)
    parts: list[Buffer] = []
    last = encode(msg, head, parts)
    if parts:
        return _sized(head, parts, last)
    _SIZE.pack_into(head, 0, len(head) - _SIZE_BYTES)
    return [head]


def encode_response_head(version: int, correlation_id: int, msg: Message, last: str, rest: Buffer) -> list[Buffer]:
    """Return the buffers of a response whose last fields are encoded already: `msg` is encoded up to and including the field `last`, and
    `rest` is appended. Raises EncodeError for a value that its field cannot hold."""
    message = type(msg)
    head = bytearray(_SIZE_AND_CORRELATION_ID.pack(0, correlation_id))
    if _has_flexible_header(message, version):
        head.append(0)
    parts: list[Buffer] = []
    tail = encoder(message, version, last=last)(msg, head, parts)
    return _sized(head, [*parts, tail, rest], bytearray())


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, msg: Message) -> list[Buffer]:
    """Return the buffers of a request: 4-byte size, header and body. Raises EncodeError for a value that its field cannot hold, ValueError
    for an unknown version."""
    flexible = version >= type(msg).FLEXIBLE_SINCE
    header = RequestHeader(api_key, version, correlation_id, client_id)
    head = bytearray(_SIZE_BYTES) + request_header(header, flexible)
    parts: list[Buffer] = []
    return _sized(head, parts, encoder(type(msg), version)(msg, head, parts))


def decode_response(api_key: int, version: int, frame: Buffer, elements: int | None = None) -> tuple[int, Any]:
    """Decode a response to a request of this version; return its correlation id and message. Raises ProtocolError for invalid bytes. It
    also raises ProtocolError, before it allocates the arrays, if they have more than `elements` elements in total (None: no limit)."""
    buf = memoryview(frame)
    message = response_class(api_key)
    correlation_id, pos = read_response_header(buf, _has_flexible_header(message, version))
    return correlation_id, decoder(message, version, elements=elements)(buf, pos, len(buf))


def decode_response_head(api_key: int, version: int, frame: Buffer, last: str, elements: int | None = None) -> tuple[Any, int]:
    """Decode a response up to and including the field `last`. Return (message, position of the next byte in `frame`). Raises
    ProtocolError for invalid bytes, and if the arrays have more than `elements` elements in total (None: no limit).
    """
    buf = memoryview(frame)
    message = response_class(api_key)
    _, pos = read_response_header(buf, _has_flexible_header(message, version))
    found: tuple[Any, int] = decoder(message, version, last=last, elements=elements)(buf, pos, len(buf))
    return found


def _sized(head: bytearray, parts: list[Buffer], last: bytearray) -> list[Buffer]:
    """Complete an encoded frame: write its 4-byte size to the beginning of `head`, and return its buffers in the order in which they are
    sent. If `parts` is empty, `head` is the whole frame. Otherwise the frame is `parts`, whose first element is `head`, followed by
    `last`."""
    if not parts:
        _SIZE.pack_into(head, 0, len(head) - _SIZE_BYTES)
        return [head]
    if last:
        parts.append(last)
    _SIZE.pack_into(head, 0, sum(map(len, parts)) - _SIZE_BYTES)
    return parts


def _request_decoder(header: RequestHeader) -> tuple[Decode, bool]:
    """Return the decoder of a request, and whether its version is flexible. The result is cached. Raises UnsupportedVersion for an unknown
    API or version, which is not cached, so that a peer cannot fill the memory."""
    api_key, version = header.api_key, header.api_version
    try:
        message = request_class(api_key)
    except KeyError:
        raise UnsupportedVersion(api_key, version, header.correlation_id, header.client_id) from None
    if not message.MIN_VERSION <= version <= message.MAX_VERSION:
        raise UnsupportedVersion(api_key, version, header.correlation_id, header.client_id)
    _request_decoders[api_key, version] = known = (decoder(message, version, exact=False), version >= message.FLEXIBLE_SINCE)
    return known


def _response_encoder(api_key: int, version: int) -> tuple[Encode, bool]:
    message = response_class(api_key)
    _response_encoders[api_key, version] = known = (encoder(message, version), _has_flexible_header(message, version))
    return known


def _has_flexible_header(message: type[Message], version: int) -> bool:
    return version >= message.FLEXIBLE_SINCE and message.API_KEY != ApiKey.API_VERSIONS

"""Request and response headers.

Each has an old and a flexible form; the API and its version decide which one is used. Kafka makes two exceptions: the client id is never a
compact string, and the header of an ApiVersions response is never flexible (KIP-511). Tagged fields of headers are skipped.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ottla.protocol.errors import MalformedHeader
from ottla.protocol.wire import Bad, skip_tags

_REQUEST = struct.Struct(">hhih")
_REQUEST_BYTES = _REQUEST.size
_CORRELATION_ID = struct.Struct(">i")


@dataclass(slots=True)
class RequestHeader:
    """The header of a request. `client_id` is only a label: bytes that are not UTF-8 are replaced, as in Kafka."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def read_request_header(buf: memoryview) -> tuple[RequestHeader, int]:
    """Decode a request header except its tagged fields, which only flexible versions have. Return (the header, the position after the
    decoded part). Raises MalformedHeader if the header is truncated."""
    if len(buf) < _REQUEST_BYTES:
        raise MalformedHeader(f"request of {len(buf)} bytes")
    api_key, api_version, correlation_id, size = _REQUEST.unpack_from(buf)
    if size < 0:
        return RequestHeader(api_key, api_version, correlation_id, None), _REQUEST_BYTES
    end = _REQUEST_BYTES + size
    if end > len(buf):
        raise MalformedHeader(f"client id of {size} bytes in a request of {len(buf)} bytes")
    return RequestHeader(api_key, api_version, correlation_id, str(buf[_REQUEST_BYTES:end], "utf-8", "replace")), end


def read_response_header(buf: memoryview, flexible: bool) -> tuple[int, int]:
    """Decode a response header, with its tagged fields if `flexible`; return (the correlation id, the position after the header). Raises
    MalformedHeader if the header is truncated or invalid."""
    if len(buf) < _CORRELATION_ID.size:
        raise MalformedHeader(f"response of {len(buf)} bytes")
    correlation_id: int = _CORRELATION_ID.unpack_from(buf)[0]
    return correlation_id, skip_header_tags(buf, _CORRELATION_ID.size) if flexible else _CORRELATION_ID.size


def skip_header_tags(buf: memoryview, pos: int) -> int:
    """Skip the tagged fields at the end of a flexible header; return the position after them. Raises MalformedHeader if they are truncated
    or invalid."""
    if pos < len(buf) and not buf[pos]:
        return pos + 1
    try:
        return skip_tags(buf, pos, len(buf))
    except (Bad, IndexError) as exc:
        raise MalformedHeader(f"tagged fields of the header at offset {pos}: {exc}") from None


def request_header(header: RequestHeader, flexible: bool) -> bytes:
    """Encode a request header, with empty tagged fields at the end if `flexible`."""
    client_id = header.client_id
    label = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(label)
    return _REQUEST.pack(header.api_key, header.api_version, header.correlation_id, size) + label + (b"\0" if flexible else b"")

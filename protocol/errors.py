"""Errors in received bytes. A `ProtocolError` means that the peer's bytes cannot be trusted; the connection is closed.

These are not error codes in responses (see `error_codes`). An invalid message that this process tries to send is an `EncodeError`.
"""

from __future__ import annotations

from collections.abc import Sequence


class ProtocolError(Exception):
    """Received bytes violate Kafka's protocol."""


class MalformedMessage(ProtocolError):
    """A message is truncated, inconsistent, or too long. `offset` counts from the start of the message's bytes."""

    def __init__(self, message: str, field: str, offset: int, reason: str) -> None:
        super().__init__(f"{message}: {field} at offset {offset}: {reason}")
        self.message = message
        self.field = field
        self.offset = offset
        self.reason = reason


class MalformedHeader(ProtocolError):
    """The header of a received request or response is invalid."""


class FrameTooLarge(ProtocolError):
    """A frame's size is negative or above the limit (`socket.request.max.bytes`). `frames` are the frames that were complete before it."""

    def __init__(self, size: int, max_bytes: int, frames: Sequence[memoryview] = ()) -> None:
        super().__init__(f"frame of {size} bytes; at most {max_bytes} are accepted")
        self.size = size
        self.max_bytes = max_bytes
        self.frames = frames


class TooManyElements(ProtocolError):
    """A request contains more array elements than the broker processes for one request; `excess` names the arrays and the limit."""

    def __init__(self, message: str, excess: str) -> None:
        super().__init__(f"{message} has {excess}")


class UnsupportedVersion(ProtocolError):
    """The API or its version is not supported. The error carries the header's fields, because an ApiVersions request of an unsupported
    version still gets a response (KIP-511)."""

    def __init__(self, api_key: int, version: int, correlation_id: int, client_id: str | None = None) -> None:
        super().__init__(f"api key {api_key} version {version} is not supported")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id


class EncodeError(ValueError):
    """A message to be sent has a value that its field cannot hold. This is the caller's bug, so it is not a `ProtocolError`."""

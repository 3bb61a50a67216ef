"""Errors about bytes. A `ProtocolError` says that the peer's bytes cannot be trusted: the connection is closed.

Nothing here is an answer to the peer (see `error_codes`). A mistake in a message that we send is an `EncodeError`, not one of these.
"""

from __future__ import annotations

from collections.abc import Sequence


class ProtocolError(Exception):
    """The bytes are not what Kafka's protocol allows."""


class MalformedMessage(ProtocolError):
    """A message breaks off, contradicts itself, or goes on after its end. `offset` counts from the start of the message's own bytes."""

    def __init__(self, message: str, field: str, offset: int, reason: str) -> None:
        super().__init__(f"{message}: {field} at offset {offset}: {reason}")
        self.message = message
        self.field = field
        self.offset = offset
        self.reason = reason


class MalformedHeader(ProtocolError):
    """The request or response header cannot be read."""


class FrameTooLarge(ProtocolError):
    """A frame announces a negative length or more bytes than we accept (`socket.request.max.bytes`). `frames` came complete before it."""

    def __init__(self, size: int, max_bytes: int, frames: Sequence[memoryview] = ()) -> None:
        super().__init__(f"frame of {size} bytes; at most {max_bytes} are accepted")
        self.size = size
        self.max_bytes = max_bytes
        self.frames = frames


class TooManyElements(ProtocolError):
    """A request asks for more than is decided in one step; `excess` says of what it has too many."""

    def __init__(self, message: str, excess: str) -> None:
        super().__init__(f"{message} has {excess}")


class UnsupportedVersion(ProtocolError):
    """An API, or a version of one, that we do not know. Keeps what the header said: ApiVersions answers even so (KIP-511)."""

    def __init__(self, api_key: int, version: int, correlation_id: int, client_id: str | None = None) -> None:
        super().__init__(f"api key {api_key} version {version} is not supported")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id


class EncodeError(ValueError):
    """A message of ours holds a value that its field cannot carry: a bug of the caller, so not a `ProtocolError`."""

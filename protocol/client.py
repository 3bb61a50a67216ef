"""A small blocking client of a broker, for tools and tests: one connection, one request at a time, no retries.

It uses only versions that both sides support (learned with one ApiVersions request per connection). Error codes in a response are left to
the caller. `OSError` (including `TimeoutError`) means that the connection failed, `ProtocolError` that the peer's bytes violate the
protocol.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError, UnsupportedVersion
from ottla.protocol.frame import FrameReader
from ottla.protocol.messages.k18_api_versions import OPENING_VERSION, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.schema import Message
from ottla.protocol.wire import Buffer

TIMEOUT_S = 30.0
FRAME_BYTES_MAX = 100 * 1024 * 1024
"""The maximum size of a received frame: Kafka's default of `socket.request.max.bytes`."""
ELEMENTS_MAX = 2_000_000
"""The most elements in all arrays of a response: Metadata of 200,000 partitions with three replicas has 1,600,000. Without a limit, 100 MiB
of the smallest elements took 45 s and 5 GB."""
_READ_BYTES = 64 * 1024
_SOFTWARE_NAME, _SOFTWARE_VERSION = "ottla", "1"


class Client:
    """A connection to the broker at `host`:`port`, opened by the constructor. Use it as a context manager, or call `close`. `timeout_s`
    limits each wait for the socket; `wrap` returns the socket to use in place of the connected one (for TLS)."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str | None = "ottla",
        timeout_s: float = TIMEOUT_S,
        wrap: Callable[[socket.socket], socket.socket] = lambda connected: connected,
    ) -> None:
        self._address = f"{host}:{port}"
        self._client_id = client_id
        connected = socket.create_connection((host, port), timeout_s)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = wrap(connected)
        except BaseException:
            connected.close()
            raise
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._frames: deque[memoryview] = deque()
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; closing twice is allowed."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the socket's descriptor, for `select`."""
        return self._socket.fileno()

    def call(self, request: Message, version: int | None = None) -> Any:
        """Send a request and return its response. `version` None: the highest version that both sides support.

        Returns None for a Produce with acks 0, which has no response. Raises UnsupportedVersion if there is no common version, OSError if
        the connection fails, and ProtocolError if the response is invalid.
        """
        if version is None:
            version = self.highest_version(type(request))
        correlation_id = self.send(request, version)
        if request.API_KEY == ApiKey.PRODUCE and getattr(request, "acks", -1) == 0:
            return None
        answered, response = decode_response(request.API_KEY, version, self.read_frame(), ELEMENTS_MAX)
        self._check_order(correlation_id, answered)
        return response

    def send(self, request: Message, version: int) -> int:
        """Send a request without waiting; return its correlation id. Responses arrive in the order of the requests."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self.send_raw(b"".join(encode_request(request.API_KEY, version, self._correlation_id, self._client_id, request)))
        return self._correlation_id

    def send_raw(self, data: Buffer) -> None:
        """Send bytes unchanged, without adding a header or a size."""
        self._socket.sendall(data)

    def read_frame(self) -> memoryview:
        """Return the next received frame, without its 4-byte size. Raises ConnectionError if the peer closes the connection instead, and
        FrameTooLarge if the frame is too large."""
        while not self._frames:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise ConnectionError(f"{self._address} closed the connection")
            self._frames.extend(self._reader.feed(data))
        return self._frames.popleft()

    def highest_version(self, message: type[Message]) -> int:
        """Return the highest version of the message's API that both sides support. The first call asks the broker for its versions with an
        ApiVersions request. Raises UnsupportedVersion if there is no common version."""
        if not self._versions:
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in self._api_versions().api_keys}
        first, last = self._versions.get(message.API_KEY, (0, -1))
        version = min(last, message.MAX_VERSION)
        if version < max(first, message.MIN_VERSION):
            raise UnsupportedVersion(message.API_KEY, version, self._correlation_id)
        return version

    def _api_versions(self) -> ApiVersionsResponse:
        """Return the broker's response to an ApiVersions request, first sent in version 4. A broker that does not support that version
        responds in version 0, with the versions that it supports (KIP-511); the request is then repeated in one of these. Raises
        ProtocolError if the broker returns an error code."""
        version = OPENING_VERSION
        while True:
            request = ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version=_SOFTWARE_VERSION)
            correlation_id = self.send(request, version)
            frame = self.read_frame()
            refused = bytes(frame[4:6]) == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
            answered, response = decode_response(ApiKey.API_VERSIONS, 0 if refused else version, frame, ELEMENTS_MAX)
            self._check_order(correlation_id, answered)
            if response.error_code == ErrorCode.NONE:
                found: ApiVersionsResponse = response
                return found
            known = [api.max_version for api in response.api_keys if api.api_key == ApiKey.API_VERSIONS]
            if not refused or version == 0:
                raise ProtocolError(f"{self._address} answered ApiVersions with error code {response.error_code}")
            version = max(0, min([version - 1, *known]))

    def _check_order(self, sent: int, answered: int) -> None:
        if sent != answered:
            raise ProtocolError(f"{self._address} answered with correlation id {answered} instead of {sent}")

"""A connection from this node to another node, which implements `ottla.broker.runtime.nodes.link.Link`.

Rules: no request is sent twice. A request waits at most until its connection is established; when a connection or its attempt breaks, every
pending call fails. The next call connects again, after a pause that grows with each failure (Kafka's NetworkClient and
ClusterConnectionStates). Timeouts are measured by the broker's clock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, cast

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.net.network import Network
from ottla.broker.runtime.nodes.link import LinkBroken, Node, UnsupportedByPeer
from ottla.broker.runtime.upkeep.timer_driver import Deadline, pause
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import EncodeError, ProtocolError
from ottla.protocol.frame import FrameReader
from ottla.protocol.messages.k18_api_versions import OPENING_VERSION, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.schema import Message

_SOFTWARE_NAME, _SOFTWARE_VERSION = "ottla", "1"
_JITTER = 0.2

Versions = dict[int, tuple[int, int]]


@dataclass(slots=True)
class _PendingRequest:
    """A pending request: it was not sent yet, or has no response yet. `version` is the highest version to use (None: any)."""

    request: Message
    version: int | None
    answer: asyncio.Future[Any]
    correlation_id: int = -1


@dataclass(frozen=True, slots=True)
class ConnectTimeouts:
    """The timeouts of connection attempts, including ApiVersions and authentication: socket.connection.setup.timeout.ms, doubled after each
    timeout, at most socket.connection.setup.timeout.max.ms.
    """

    setup_ms: int = 10_000
    setup_max_ms: int = 30_000

    def after(self, failures: int, jitter: float) -> int:
        """Return the timeout in ms after `failures` consecutive timeouts, multiplied by `jitter`, a number near 1 (KAFKA
        ExponentialBackoff).
        """
        if self.setup_ms >= self.setup_max_ms:
            return self.setup_ms
        return min(round(min(self.setup_ms << min(failures, 20), self.setup_max_ms) * jitter), self.setup_max_ms)


class NodeClient:
    """A connection to another node, `node`, which is opened by the first call and again after it breaks. `client_id` is sent in every
    request. For a secured listener use `secured_node_client.SecuredNodeClient`.
    """

    def __init__(
        self,
        node: Node,
        network: Network,
        *,
        clock: Clock,
        timers: Timers,
        random: Random,
        client_id: str,
        timeouts: ConnectTimeouts | None = None,
    ) -> None:
        self.node = node
        self._network = network
        self._clock = clock
        self._timers = timers
        self._random = random
        self._client_id = client_id
        self._timeouts = timeouts or ConnectTimeouts()
        self._connection: NodeConnection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._unsent: list[_PendingRequest] = []
        self._versions: Versions = {}
        self._failures = 0
        self._slow = 0
        self._dial_from_ms = 0
        self._closed = False

    async def call(self, request: Message, *, timeout_ms: int, version: int | None = None) -> Any:
        """Send a request and return its response (`Link.call`). `timeout_ms` includes the backoff before a connection attempt and the
        attempt itself. Raises LinkBroken if the connection fails or the time is over, UnsupportedByPeer if both nodes have no version of
        the API in common."""
        if self._closed:
            raise LinkBroken(f"the link to {self._address} is closed")
        pending = _PendingRequest(request, version, asyncio.get_running_loop().create_future())
        why = f"{self._address} did not answer {type(request).__name__} in {timeout_ms} ms"
        timer = Deadline(self._timers, self._clock, timeout_ms, partial(self._break, why))
        try:
            if self._connection is not None and self._opening is None:
                self._send(self._connection, pending)
            else:
                self._unsent.append(pending)
                if self._opening is None:
                    self._opening = asyncio.get_running_loop().create_task(self._open())
            return await pending.answer
        finally:
            timer.cancel()

    def versions(self, api_key: int) -> tuple[int, int] | None:
        """Return the lowest and highest version of an API that the peer supports; None if it lacks the API or was never reached
        (`Link.versions`).
        """
        return self._versions.get(api_key)

    def close(self) -> None:
        """Close the connection and fail pending calls (`Link.close`)."""
        self._closed = True
        self._break(f"the link to {self._address} was closed")

    @property
    def _address(self) -> str:
        return f"{self.node.host}:{self.node.port}"

    async def _open(self) -> None:
        """Wait for the backoff, connect to the node, fetch the API versions that it supports, and send the waiting requests. `_break`
        cancels this task.
        """
        if self._dial_from_ms > self._clock.mono_ms():
            await pause(self._timers, self._clock, self._dial_from_ms - self._clock.mono_ms())
        setup_ms = self._timeouts.after(self._slow, self._jitter()) if self._slow else self._timeouts.setup_ms
        timer = Deadline(self._timers, self._clock, setup_ms, partial(self._too_slow, setup_ms))
        connection = NodeConnection(self._address, self._client_id, self._closed_by_peer)
        try:
            await self._reach(connection)
            self._connection = connection
            self._versions = await _versions_of(connection)
        except OSError as error:
            self._opening = None
            self._break(f"{self._address}: {error}")
            return
        except LinkBroken as error:
            self._opening = None
            self._break(str(error), type(error))
            return
        finally:
            timer.cancel()
            if self._connection is not connection:
                connection.end("given up")
        self._failures = self._slow = 0
        self._opened(connection)

    async def _reach(self, connection: NodeConnection) -> None:
        """Connect to the node, with `connection` as the protocol. Raises OSError or LinkBroken if the attempt fails."""
        await self._network.connect(self.node.host, self.node.port, lambda: connection)

    def _opened(self, connection: NodeConnection) -> None:
        """Send the requests that waited for the connection, which is established now."""
        self._opening = None
        unsent, self._unsent = self._unsent, []
        for pending in unsent:
            self._send(connection, pending)

    def _closed_by_peer(self, why: str) -> None:
        self._break(why)

    def _too_slow(self, setup_ms: int) -> None:
        self._slow += 1
        self._break(f"{self._address} was not reached in {setup_ms} ms")

    def _jitter(self) -> float:
        return self._random.uniform(1 - _JITTER, 1 + _JITTER)

    def _send(self, connection: NodeConnection, pending: _PendingRequest) -> None:
        """Send a pending request at the highest version that both nodes support. If there is none, fail the request at once with
        UnsupportedByPeer."""
        if pending.answer.done():
            return
        request = pending.request
        first, last = self._versions.get(request.API_KEY, (0, -1))
        version = min(last, request.MAX_VERSION, request.MAX_VERSION if pending.version is None else pending.version)
        if version < max(first, request.MIN_VERSION):
            pending.answer.set_exception(
                UnsupportedByPeer(f"{self._address} supports {type(request).__name__} in versions {first} to {last}")
            )
            return
        connection.ask(pending, version)

    def _break(self, why: str, kind: type[LinkBroken] = LinkBroken) -> None:
        """Close the connection because of `why`: every pending call fails with an error of type `kind`. The next call connects again, after
        the backoff.
        """
        opening, self._opening = self._opening, None
        connection, self._connection = self._connection, None
        unsent, self._unsent = self._unsent, []
        if opening is not None:
            opening.cancel()
        if connection is not None:
            connection.end(why)
        for pending in unsent:
            _fail(pending, why, kind)
        backoff_ms = min(limits.LINK_BACKOFF_MS << min(self._failures, 10), limits.LINK_BACKOFF_MS_MAX)
        self._failures += 1
        self._dial_from_ms = self._clock.mono_ms() + round(backoff_ms * self._jitter())


class NodeConnection(asyncio.Protocol):
    """One TCP connection to another node: sends requests and receives their responses in order. `broke` is called once with the reason if
    the peer closes the connection or sends an invalid response, but not after `end`.
    """

    def __init__(self, address: str, client_id: str, broke: Callable[[str], None]) -> None:
        self.address = address
        self._client_id = client_id
        self._on_broken: Callable[[str], None] | None = broke
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(limits.NODE_RESPONSE_BYTES)
        self._waiting: deque[tuple[_PendingRequest, int]] = deque()
        self._correlation_id = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._on_broken is None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._answered(frame)
        except ProtocolError as error:
            self._lost(f"{self.address} sent an invalid response: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(f"{self.address} closed the connection" + (f": {error}" if error else ""))

    async def call(self, request: Message, version: int) -> Any:
        """Send a request during the connection's setup and return the response. Raises LinkBroken if the connection breaks."""
        pending = _PendingRequest(request, version, asyncio.get_running_loop().create_future())
        self.ask(pending, version)
        return await pending.answer

    def ask(self, pending: _PendingRequest, version: int) -> None:
        """Send a request at `version`, and do not wait for its response, which completes `pending.answer`."""
        assert self._transport is not None
        request = pending.request
        pending.correlation_id = self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        try:
            buffers = encode_request(request.API_KEY, version, pending.correlation_id, self._client_id, request)
        except EncodeError as error:
            pending.answer.set_exception(error)
            return
        self._waiting.append((pending, version))
        self._transport.writelines(buffers)

    def end(self, why: str) -> None:
        """Close the connection because of `why`, and fail the pending requests with this reason."""
        self._on_broken = None
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for pending, _ in waiting:
            _fail(pending, why)

    def _answered(self, frame: memoryview) -> None:
        if not self._waiting:
            raise ProtocolError("a response without a request")
        pending, version = self._waiting.popleft()
        refused = pending.request.API_KEY == ApiKey.API_VERSIONS and bytes(frame[4:6]) == _UNSUPPORTED
        try:
            api_version = 0 if refused else version
            correlation_id, response = decode_response(pending.request.API_KEY, api_version, frame, limits.NODE_RESPONSE_ELEMENTS)
            if correlation_id != pending.correlation_id:
                raise ProtocolError(f"response to request {correlation_id} instead of {pending.correlation_id}")
        except ProtocolError as error:
            _fail(pending, f"{self.address}: {error}")
            raise
        if not pending.answer.done():
            pending.answer.set_result(response)

    def _lost(self, why: str) -> None:
        broke, self._on_broken = self._on_broken, None
        if broke is not None:
            self.end(why)
            broke(why)


_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def _fail(pending: _PendingRequest, why: str, kind: type[LinkBroken] = LinkBroken) -> None:
    if not pending.answer.done():
        pending.answer.set_exception(kind(why))


async def _versions_of(connection: NodeConnection) -> Versions:
    """Request and return the API versions that the peer supports. A peer that does not support our version of ApiVersions answers with
    version 0 and its own maximum (KIP-511). Raises LinkBroken if the connection breaks or the response has an error."""
    version = OPENING_VERSION
    while True:
        response: ApiVersionsResponse = await connection.call(ApiVersionsRequest(_SOFTWARE_NAME, _SOFTWARE_VERSION), version)
        if response.error_code == ErrorCode.NONE:
            return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if response.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
            raise LinkBroken(f"{connection.address}: ApiVersions failed with error code {response.error_code}")
        known = [api.max_version for api in response.api_keys if api.api_key == ApiKey.API_VERSIONS]
        version = max(0, min([version - 1, *known]))

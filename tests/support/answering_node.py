"""A scripted node in a network in memory, to test components that send requests to other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from ottla.broker.sim.memory_network import MemoryNetwork
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request, decode_request, encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import UnsupportedVersion
from ottla.protocol.frame import FrameReader
from ottla.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.schema import Message

HANG_UP = object()
"""A scripted answer that closes the connection instead of sending a response."""
Answer = Callable[[Request], Any]


class ScriptedNode:
    """A node that listens at `host`:`port`. `answer(request)` returns a response, HANG_UP, None for no response, or a future of one of
    them. It supports `versions`, including ApiVersions; `requests` are the received requests, except ApiVersions."""

    def __init__(self, network: MemoryNetwork, host: str, port: int, answer: Answer, versions: dict[int, tuple[int, int]]) -> None:
        self.answer = answer
        self.versions = {int(ApiKey.API_VERSIONS): (0, 4), **{int(key): value for key, value in versions.items()}}
        self.requests: list[Request] = []
        self.connections: list[ScriptedConnection] = []
        self._place = network.listen(host, port)

    async def start(self) -> ScriptedNode:
        await self._place.accept(lambda: ScriptedConnection(self), 10)
        return self

    def stop(self) -> None:
        """Stop the scripted node: close its listener and all its connections."""
        self._place.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Close every connection of the scripted node; it keeps listening."""
        connections, self.connections = self.connections, []
        for connection in connections:
            connection.transport.abort()

    def received_keys(self) -> list[int]:
        return [request.header.api_key for request in self.requests]


class ScriptedConnection(asyncio.Protocol):
    """The scripted node's end of a connection."""

    def __init__(self, node: ScriptedNode) -> None:
        self._node = node
        self._reader = FrameReader(1 << 24)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._node.connections.append(self)

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            self._received(frame)

    def _received(self, frame: memoryview) -> None:
        request: Request | None = None
        try:
            request = decode_request(frame)
        except UnsupportedVersion as error:
            api_key, version, correlation_id = error.api_key, error.version, error.correlation_id
        else:
            api_key, version, correlation_id = request.header.api_key, request.header.api_version, request.header.correlation_id
        first, last = self._node.versions.get(api_key, (0, -1))
        if api_key == ApiKey.API_VERSIONS:
            known = [ApiVersion(key, *versions) for key, versions in self._node.versions.items()]
            if first <= version <= last:
                self._write(api_key, version, correlation_id, ApiVersionsResponse(api_keys=known))
            else:
                refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=known)
                self._write(api_key, 0, correlation_id, refusal)
            return
        assert request is not None
        assert first <= version <= last, f"api key {api_key} version {version} was asked, {first} to {last} are served"
        self._node.requests.append(request)
        self._answer(request, self._node.answer(request))

    def _answer(self, request: Request, answer: Any) -> None:
        if answer is HANG_UP:
            self.transport.abort()
        elif isinstance(answer, Awaitable):
            asyncio.ensure_future(answer).add_done_callback(partial(self._done, request))
        elif isinstance(answer, Message):
            header = request.header
            self._write(header.api_key, header.api_version, header.correlation_id, answer)

    def _done(self, request: Request, answered: asyncio.Future[Any]) -> None:
        if not answered.cancelled():
            self._answer(request, answered.result())

    def _write(self, api_key: int, version: int, correlation_id: int, answer: Message) -> None:
        self.transport.writelines(encode_response(api_key, version, correlation_id, answer))

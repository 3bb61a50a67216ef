"""Clients of brokers on a network in memory, and a broker's connection to that network that can be cut."""

from __future__ import annotations

import asyncio
import errno
import os

from ottla.broker.net.network import MakeProtocol
from ottla.broker.sim.memory_network import MemoryNetwork, MemoryServer
from ottla.protocol.codec import encode_request
from ottla.protocol.frame import FrameReader
from ottla.protocol.schema import Message


class BrokerNetwork:
    """One broker's view of the network. `cut_off` cuts its connections to a host and rejects new ones, until the host is removed from
    `cut`."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._made: list[tuple[str, asyncio.Transport]] = []
        self.cut: set[str] = set()

    def listen(self, host: str, port: int) -> MemoryServer:
        return self._network.listen(host, port)

    async def connect(self, host: str, port: int, make: MakeProtocol) -> asyncio.Transport:
        if host in self.cut:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        transport = await self._network.connect(host, port, make)
        self._made = [(to, made) for to, made in self._made if not made.is_closing()]
        self._made.append((host, transport))
        return transport

    def cut_off(self, *hosts: str) -> None:
        self.cut.update(hosts)
        for host, transport in self._made:
            if host in self.cut:
                transport.abort()


class MemoryClient(asyncio.Protocol):
    """A client on its broker's loop: sends requests, and stores received frames in order."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.lost = False
        self._reader = FrameReader(1 << 24)
        self._correlation_id = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.frames += map(bytes, self._reader.feed(data))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True

    def write(self, data: bytes) -> None:
        """Send bytes unchanged to the broker."""
        self._transport.write(data)

    def send(self, request: Message, version: int) -> None:
        self._correlation_id += 1
        self._transport.writelines(encode_request(request.API_KEY, version, self._correlation_id, "client", request))

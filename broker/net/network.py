"""The only door to the network, so that a simulation can put one behind it that loses, delays and cuts.

Rule: what goes through it are asyncio's own transports and protocols; a connection does not know what carries it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

MakeProtocol = Callable[[], asyncio.Protocol]


class BoundAddress(Protocol):
    """An address that is taken. Who connects before `accept` waits or is refused."""

    @property
    def port(self) -> int:
        """The port, also where any was asked for."""
        ...

    async def accept(self, make: MakeProtocol, backlog: int) -> None:
        """From now on each connection gets a protocol of `make`; at most `backlog` wait for theirs."""
        ...

    def close(self) -> None:
        """Accept nothing more and give the address back; connections stay."""
        ...


class Network(Protocol):
    """Takes addresses and connects to them."""

    def listen(self, host: str, port: int) -> BoundAddress:
        """Take an address (port 0: any port). Raises OSError where that cannot be had."""
        ...

    async def connect(self, host: str, port: int, make: MakeProtocol) -> asyncio.Transport:
        """A connection to an address, with a protocol of `make` at this end. Raises OSError."""
        ...


class Sockets:
    """The operating system's TCP, on the running loop."""

    def listen(self, host: str, port: int) -> BoundAddress:
        return _BoundSocket(_bound(host, port))

    async def connect(self, host: str, port: int, make: MakeProtocol) -> asyncio.Transport:
        transport, _ = await asyncio.get_running_loop().create_connection(make, host, port)
        return transport


class _BoundSocket:
    def __init__(self, bound: socket.socket) -> None:
        self._socket = bound
        self._server: asyncio.Server | None = None
        self.port: int = bound.getsockname()[1]

    async def accept(self, make: MakeProtocol, backlog: int) -> None:
        self._server = await asyncio.get_running_loop().create_server(make, sock=self._socket, backlog=backlog)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    named = host.encode() if host.isascii() else host  # Python loads tables of Unicode for a str, whatever is in it
    found = socket.getaddrinfo(named, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # A name of both families (localhost) is bound at IPv4, as Java does: there are clients that dial nothing else.
    family, kind, proto, _, address = min(found, key=lambda each: each[0] is not socket.AF_INET)
    bound = socket.socket(family, kind, proto)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound

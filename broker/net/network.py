"""The interface to the network. A simulation replaces it by one that loses, delays and cuts connections.

Invariant: connections are asyncio transports and protocols, so a protocol does not depend on the implementation.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

MakeProtocol = Callable[[], asyncio.Protocol]


class BoundAddress(Protocol):
    """A bound address. Before `accept`, a connection attempt blocks or fails, depending on the implementation."""

    @property
    def port(self) -> int:
        """The bound port. If port 0 was requested, it is the port that was chosen."""
        ...

    async def accept(self, make: MakeProtocol, backlog: int) -> None:
        """Start accepting: each connection gets a protocol from `make`; at most `backlog` connections are queued. Raises OSError if another
        process listens on the address since it was bound."""
        ...

    def close(self) -> None:
        """Stop accepting and release the address. Existing connections stay open."""
        ...


class Network(Protocol):
    """The interface to a network: it binds addresses, and connects to them."""

    def listen(self, host: str, port: int) -> BoundAddress:
        """Bind an address (port 0: any port). Raises OSError if it is not available."""
        ...

    async def connect(self, host: str, port: int, make: MakeProtocol) -> asyncio.Transport:
        """Connect to an address; `make` makes the connection's protocol. Return the transport. Raises OSError if the attempt fails."""
        ...


class Sockets:
    """The network of the operating system: TCP on the running event loop."""

    def listen(self, host: str, port: int) -> BoundAddress:
        return _BoundSocket(bound_socket(host, port))

    async def connect(self, host: str, port: int, make: MakeProtocol) -> asyncio.Transport:
        transport, _ = await asyncio.get_running_loop().create_connection(make, host, port)
        return transport


class _BoundSocket:
    def __init__(self, bound: socket.socket) -> None:
        self._socket = bound
        self._server: asyncio.Server | None = None
        self.port: int = bound.getsockname()[1]

    async def accept(self, make: MakeProtocol, backlog: int) -> None:
        # Two sockets can be bound to one address until one of them listens. uvloop would ignore that the other one cannot listen any more.
        self._socket.listen(backlog)
        self._server = await asyncio.get_running_loop().create_server(make, sock=self._socket, backlog=backlog)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._socket.close()


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a TCP socket that is bound to an address (port 0: any port) and does not listen yet. Raises OSError if the address cannot be
    bound."""
    named = host.encode() if host.isascii() else host  # for a str, Python imports the idna codec and its tables, even if the name is ASCII
    found = socket.getaddrinfo(named, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # A name of both families (localhost) is bound at IPv4, as in Java: some clients connect to nothing else.
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


def host_and_port(host: str, port: int) -> str:
    """Return `host:port` in the form that clients parse: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def plain_address(host: str) -> str:
    """Return the address of a connection's peer without the IPv6 prefix of an IPv4 address. A dual-stack listener reports
    `::ffff:192.0.2.1`, which a client that uses only IPv4 cannot resolve.
    """
    return host.removeprefix("::ffff:") if "." in host else host

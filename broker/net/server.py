"""Listening sockets, and what concerns all connections at once: idle ones, and stopping."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from dataclasses import replace

from broker.api.context import Listener
from broker.core.timers import Timers
from broker.net.connection import Connection, Shared

logger = logging.getLogger(__name__)

_IDLE_SWEEPS = 10
"""Sweeps per idle time: a connection is closed at most a tenth later than connections.max.idle.ms says."""


class Server:
    """All listeners of a broker. `listeners` are as configured until `start`, then with the ports that the kernel gave."""

    def __init__(self, shared: Shared, listeners: Sequence[Listener], backlog: int) -> None:
        self._shared = shared
        self._backlog = backlog
        self._servers: list[asyncio.Server] = []
        self.listeners: list[Listener] = list(listeners)

    def bind(self) -> list[socket.socket]:
        """Bind every listener (no connection is accepted yet); raises OSError naming the address."""
        sockets = []
        for position, listener in enumerate(self.listeners):
            bound = _bind(listener)
            self.listeners[position] = replace(listener, port=bound.getsockname()[1])
            sockets.append(bound)
        return sockets

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections on sockets that `bind` gave."""
        loop = asyncio.get_running_loop()
        for bound, listener in zip(sockets, self.listeners, strict=True):
            server = await loop.create_server(lambda at=listener: Connection(self._shared, at), sock=bound, backlog=self._backlog)
            self._servers.append(server)

    def watch_idle(self, timers: Timers, max_idle_ms: int) -> None:
        """From now on close connections that were silent for `max_idle_ms` (-1: never)."""
        if max_idle_ms < 0:
            return
        every = max(1, max_idle_ms // _IDLE_SWEEPS)

        def sweep() -> None:
            now = self._shared.mono_ms()
            for connection in list(self._shared.connections):
                if connection.idle and now - connection.last_active_ms >= max_idle_ms:
                    logger.info("Closing a connection that was idle for %d ms (connections.max.idle.ms)", now - connection.last_active_ms)
                    connection.abort()
            timers.schedule(now + every, sweep)

        timers.schedule(self._shared.mono_ms() + every, sweep)

    def stop_accepting(self) -> None:
        """Close the listening sockets and read nothing more; what is in flight will be answered."""
        for server in self._servers:
            server.close()
        for connection in list(self._shared.connections):
            connection.stop_reading()

    def abort_all(self) -> None:
        """Close every connection now."""
        for connection in list(self._shared.connections):
            connection.abort()


def _bind(listener: Listener) -> socket.socket:
    host = listener.host or "0.0.0.0"
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, kind, proto)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {listener.name}://{host}:{listener.port}: {error.strerror}") from error
    bound.setblocking(False)
    return bound

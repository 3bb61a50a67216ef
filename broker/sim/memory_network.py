"""A network in memory, for brokers and clients on one event loop. Bytes that one end of a connection writes arrive at the other end in a
later turn of the loop, always in the same order. It passes the same test suite as the real network (test_network.py)."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from contextvars import Context

from ottla.broker.net.network import MakeProtocol
from ottla.protocol.wire import Buffer

Address = tuple[str, int]


class MemoryNetwork:
    def __init__(self) -> None:
        self.servers: dict[Address, MemoryServer] = {}
        self._next_port = 49_152

    def listen(self, host: str, port: int) -> MemoryServer:
        if (host, port) in self.servers:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        server = MemoryServer(self, host, port or self.any_port())
        self.servers[host, server.port] = server
        return server

    async def connect(self, host: str, port: int, make: MakeProtocol) -> asyncio.Transport:
        server = self.servers.get((host, port))
        if server is None or server.make is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        client = ("client", self.any_port())
        here, there = MemoryTransport(make(), client, (host, port)), MemoryTransport(server.make(), (host, port), client)
        here.other, there.other = there, here
        here.protocol.connection_made(here)
        asyncio.get_running_loop().call_soon(there.protocol.connection_made, there)
        return here

    def any_port(self) -> int:
        self._next_port += 1
        return self._next_port


class MemoryServer:
    def __init__(self, network: MemoryNetwork, host: str, port: int) -> None:
        self._network = network
        self._host = host
        self.port = port
        self.make: MakeProtocol | None = None

    async def accept(self, make: MakeProtocol, backlog: int) -> None:
        self.make = make

    def close(self) -> None:
        self._network.servers.pop((self._host, self.port), None)


class MemoryTransport(asyncio.Transport):
    """One end of a connection in memory. The size of its write buffer is the number of bytes that it has written and the other end has not
    read yet."""

    other: MemoryTransport
    context: Context | None = None
    """The `contextvars` context in which the callbacks of the transport's protocol run; None: the context of the caller."""

    def __init__(self, protocol: asyncio.Protocol, local: Address, remote: Address) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.protocol = protocol
        self._unread = bytearray()
        self._ended = False
        self._end_delivered = False
        self._reading = True
        self._closing = False
        self._write_buffer_bytes = 0
        self._write_paused = False
        self._low, self._high = 16_384, 65_536

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or 0, low or 0

    def get_write_buffer_size(self) -> int:
        return self._write_buffer_bytes

    def write(self, data: Buffer) -> None:
        if self._closing:
            return
        self._write_buffer_bytes += len(data)
        self.carry(self.other.receive, bytes(data))
        if self._write_buffer_bytes > self._high and not self._write_paused:
            self._write_paused = True
            self.protocol.pause_writing()

    def writelines(self, buffers: Iterable[Buffer]) -> None:
        self.write(b"".join(buffers))

    def write_eof(self) -> None:
        self.carry(self.other.end)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._soon(self._deliver)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self.write_eof()
            self.lose(None)

    def abort(self) -> None:
        self.lose(None)
        self.carry(self.other.reset)

    def lose(self, error: Exception | None) -> None:
        """Close this end of the connection; the other end is not notified. `error` is passed to `connection_lost` of this end's
        protocol."""
        if not self._closing:
            self._closing = True
            self._soon(self.protocol.connection_lost, error)

    def carry(self, event: Callable[..., None], *args: bytes) -> None:
        """Deliver an event (bytes, end of stream or reset) to the other end of the connection by calling `event(*args)`, after all events
        before it."""
        event(*args)

    # --- events from the other end -------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Receive bytes that the other end wrote."""
        self._unread += data
        self._soon(self._deliver)

    def end(self) -> None:
        """Receive the end of stream: the other end will write nothing more."""
        self._ended = True
        self._soon(self._deliver)

    def reset(self) -> None:
        """Close this end of the connection with ECONNRESET, because the other end was reset. Bytes that were not read yet are lost."""
        self._unread.clear()
        self.lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def _soon(self, call: Callable[..., object], *args: object) -> None:
        asyncio.get_running_loop().call_soon(call, *args, context=self.context)

    def _deliver(self) -> None:
        if self._closing or not self._reading:
            return
        if self._unread:
            data = bytes(self._unread)
            self._unread.clear()
            self.protocol.data_received(data)
            self.other.drained(len(data))
        elif self._ended and not self._end_delivered:
            self._end_delivered = True
            if not self.protocol.eof_received():
                self.close()
            return
        if self._ended:
            self._soon(self._deliver)

    def drained(self, count: int) -> None:
        """The other end has read `count` bytes: remove them from the size of the write buffer, and resume writing if it is not above the
        low-water mark."""
        self._write_buffer_bytes -= count
        if self._write_paused and self._write_buffer_bytes <= self._low:
            self._write_paused = False
            self._soon(self.protocol.resume_writing)

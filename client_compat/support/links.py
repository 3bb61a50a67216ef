"""Links between the nodes of a cluster that can be cut: every connection between two nodes goes through this process.

Other nodes connect to a port of this process, which forwards to the node's own port. The connecting node is found by its process, which has
the connection's other end. Data on a cut link stays in the kernel's buffers, as on a network that loses all packets: no connection ends or
is refused, and everything sent arrives after the repair.

Rules: this process does not parse the forwarded bytes; each direction between two nodes is cut separately.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import cast

import psutil
import uvloop

from client_compat.support.brokers import HOST
from client_compat.support.ports import free_port

RESPONSE_TIMEOUT_S = 10.0
Way = tuple[int, int]
"""A direction from one node to another, by their ids."""


class Links:
    """Forwards every connection between the nodes of a cluster, and can cut the links between them. Use as a context manager. `processes`
    returns the process ids of the running nodes, by node id."""

    def __init__(self, processes: Callable[[], Mapping[int, int]]) -> None:
        self._processes = processes
        self._targets: dict[int, tuple[int, int]] = {}
        self._cuts: Counter[Way] = Counter()
        self._ends: set[_End] = set()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)

    def to(self, node_id: int, port: int) -> int:
        """Return the port at which other nodes connect to the node that listens at `port`. Call it before the links are started."""
        own = free_port()
        self._targets[own] = node_id, port
        return own

    @contextmanager
    def cut(self, ways: Collection[Way]) -> Iterator[None]:
        """Block these directions between two nodes each while the context lasts. A direction that two contexts block works again when both
        have ended."""
        asyncio.run_coroutine_threadsafe(self._add(ways, 1), self._loop).result(RESPONSE_TIMEOUT_S)
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(self._add(ways, -1), self._loop).result(RESPONSE_TIMEOUT_S)

    def is_cut(self, way: Way) -> bool:
        return self._cuts[way] > 0

    def dialler(self, port: int) -> int | None:
        """Return the node whose process opened the connection from local port `port`; None if no node did. The look-up takes some
        milliseconds."""
        for node_id, pid in self._processes().items():
            try:
                connections = psutil.Process(pid).net_connections("tcp")
            except psutil.Error:
                continue
            if any(one.laddr and one.laddr.port == port for one in connections):  # a JVM's are mapped IPv6 addresses
                return node_id
        return None

    def __enter__(self) -> Links:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(RESPONSE_TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(RESPONSE_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(RESPONSE_TIMEOUT_S)
        self._loop.close()

    async def _add(self, ways: Collection[Way], count: int) -> None:
        for way in ways:
            self._cuts[way] += count
        for end in self._ends:
            end.look()

    async def _listen(self) -> None:
        self._servers = [
            await self._loop.create_server(partial(_Dialled, self, self._ends, node_id, port), HOST, own)
            for own, (node_id, port) in self._targets.items()
        ]

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for end in list(self._ends):
            end.abort()
        await asyncio.sleep(0)


class _End(asyncio.Protocol):
    """One of the two ends of a connection that a `Links` proxy forwards. Data received here is sent by the end `other`; `way` has the
    faults (cuts, delays) of that direction."""

    def __init__(self, links: Links, ends: set[_End]) -> None:
        self._links, self._ends = links, ends
        self._transport: asyncio.Transport | None = None
        self._full = False
        self._early: list[bytes] = []
        """Data that this end received although its reading was paused."""
        self.other: _End | None = None
        self.way: Way | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ends.add(self)

    def is_gone(self) -> bool:
        return self._transport is None

    def look(self) -> None:
        """Start or stop reading from this end. This end reads only while the other end is connected, the other end's write buffer is not
        full, and the direction is not cut."""
        if self._transport is None or self._transport.is_closing():
            return
        if self.other is None or self.way is None or self._full or self._links.is_cut(self.way):
            self._transport.pause_reading()
            return
        for data in self._early:
            self.other.write(data)
        self._early.clear()
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.way is None or self._links.is_cut(self.way):
            self._early.append(data)
            self.look()
        else:
            self.other.write(data)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def pause_writing(self) -> None:
        self._other_is_full(full=True)

    def resume_writing(self) -> None:
        self._other_is_full(full=False)

    def _other_is_full(self, *, full: bool) -> None:
        if self.other is not None:
            self.other._full = full
            self.other.look()

    def connection_lost(self, error: Exception | None) -> None:
        self._ends.discard(self)
        self._transport = None
        if self.other is not None:
            self.other.close()

    def close(self) -> None:
        """Close this end after all buffered data was sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _Dialled(_End):
    """The end of a forwarded connection at the node that opened the connection."""

    def __init__(self, links: Links, ends: set[_End], target: int, port: int) -> None:
        super().__init__(links, ends)
        self._target, self._port = target, port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.look()
        self._task = asyncio.ensure_future(self._dial(transport.get_extra_info("peername")[1]))

    async def _dial(self, own_port: int) -> None:
        other, loop = _End(self._links, self._ends), asyncio.get_running_loop()
        dialler = await loop.run_in_executor(None, self._links.dialler, own_port)
        if dialler is None or self.is_gone():
            self.abort()
            return
        try:
            await loop.create_connection(lambda: other, HOST, self._port)
        except OSError:
            self.abort()
            return
        if self.is_gone():
            other.abort()
            return
        self.other, self.way = other, (dialler, self._target)
        other.other, other.way = self, (self._target, dialler)
        for end in (self, other):
            end.look()

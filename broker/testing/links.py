"""Network links between the nodes of a cluster in this process. The nodes use real sockets; a test can block or delay a link.

Rules:
- The bytes of a connection arrive in order.
- Whatever is sent over a blocked link (bytes, or the end of a connection) arrives when the link is unblocked; a connection attempt waits.
  TCP's retransmission has the same effect: neither side is notified.
- The node that opened a connection applies the rules in both directions.
- Links may be changed on any thread; a change applies to everything sent after it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, cast

from ottla.broker.net.network import BoundAddress, MakeProtocol, Network, Sockets

Way = tuple[int, int]
"""A direction of the link between two nodes: (id of the sending node, id of the receiving node)."""


class Links:
    """The network between the nodes of a cluster in this process. It knows which directions between two nodes are blocked or delayed;
    `blocked` has the blocked ones, each as (sending node, receiving node)."""

    def __init__(self) -> None:
        self.blocked: frozenset[Way] = frozenset()
        self._slow_ms: dict[Way, float] = {}
        self._node_at: dict[int, int] = {}
        self._networks: dict[int, LinkedNetwork] = {}

    def network(self, node: int) -> LinkedNetwork:
        """Return a new network for the node with this id; its connections are blocked and delayed as the rules of this object say. Each
        event loop that the node runs on needs a network of its own."""
        self._networks[node] = made = LinkedNetwork(self, node)
        return made

    def block(self, ways: Iterable[Way]) -> None:
        """Block these directions, in addition to those that are blocked already. A direction is (sending node, receiving node)."""
        self._change(self.blocked.union(ways), self._slow_ms)

    def slow(self, ways: Iterable[Way], ms: float) -> None:
        """Delay everything that is sent in these directions by `ms` milliseconds. A direction is (sending node, receiving node)."""
        self._change(self.blocked, {**self._slow_ms, **dict.fromkeys(ways, ms)})

    def heal(self) -> None:
        """Unblock all links and remove all delays. Bytes and connection ends that were held back are delivered."""
        self._change(frozenset(), {})

    def between(self, some: Collection[int], others: Collection[int]) -> list[Way]:
        """Return both directions of the link between each node of `some` and each node of `others`, each as (sending node, receiving
        node)."""
        return [way for one in some for other in others for way in ((one, other), (other, one)) if one != other]

    def delay_ms(self, way: Way) -> float:
        """Return by how many milliseconds a direction (sending node, receiving node) is delayed; 0 if it is not."""
        return self._slow_ms.get(way, 0)

    def listens(self, node: int, port: int) -> None:
        """Register that the node with the id `node` listens on `port`, so that the links' rules apply to connections to this port."""
        self._node_at[port] = node

    def node_at(self, port: int) -> int:
        """Return the id of the node that listens on a port; -1 if no node of the cluster does."""
        return self._node_at.get(port, -1)

    def _change(self, blocked: frozenset[Way], slow_ms: dict[Way, float]) -> None:
        self.blocked, self._slow_ms = blocked, slow_ms
        for network in list(self._networks.values()):
            network.deliver_unblocked()


class LinkedNetwork:
    """The TCP network as one node of an in-process cluster sees it. Its connections to other nodes are blocked and delayed by the rules in
    `Links`."""

    def __init__(self, links: Links, node: int) -> None:
        self._links, self._node = links, node
        self._sockets: Network = Sockets()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.directions: dict[Direction, None] = {}
        """The two directions of each connection that this node has opened. They are the keys of a dict, in the order of their creation."""

    def listen(self, host: str, port: int) -> BoundAddress:
        place = self._sockets.listen(host, port)
        self._links.listens(self._node, place.port)
        return place

    async def connect(self, host: str, port: int, make: MakeProtocol) -> asyncio.Transport:
        self._loop = asyncio.get_running_loop()
        peer = self._links.node_at(port)
        there, back = Direction(self, self._links, (self._node, peer)), Direction(self, self._links, (peer, self._node))
        try:
            for direction in (there, back):
                await direction.wait_until_passable()
            relay = Relay(make(), there, back)
            await self._sockets.connect(host, port, lambda: relay)
        except BaseException:
            there.end()
            back.end()
            raise
        return relay.transport

    def deliver_unblocked(self) -> None:
        """After the links have changed: deliver everything that is now neither blocked nor delayed. May be called on any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver_all_due)

    def _deliver_all_due(self) -> None:
        for direction in list(self.directions):
            direction.deliver_due()


class Direction:
    """One direction of one TCP connection. It delivers bytes and the end of the connection in order; each is delivered when the link's
    delay is over and the link is not blocked."""

    def __init__(self, network: LinkedNetwork, links: Links, way: Way) -> None:
        self._network, self._links, self._way = network, links, way
        self._loop = asyncio.get_running_loop()
        self._in_transit: deque[tuple[float, Callable[[], object]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        network.directions[self] = None

    def carry(self, arrives: Callable[[], object]) -> None:
        """Deliver an event (bytes, or the connection's end) by calling `arrives`, when the link permits it and all earlier events are
        delivered."""
        delay_ms = self._links.delay_ms(self._way)
        self._in_transit.append((self._loop.time() + delay_ms / 1000 if delay_ms else 0, arrives))
        self.deliver_due()

    async def wait_until_passable(self) -> None:
        """Wait until the delay of the link is over and this direction is not blocked. An event that was sent at the time of the call would
        arrive then."""
        arrived: asyncio.Future[None] = self._loop.create_future()
        self.carry(lambda: None if arrived.done() else arrived.set_result(None))
        await arrived

    def deliver_due(self) -> None:
        """Deliver all events whose delay is over. While the direction is blocked, deliver nothing."""
        waiting = self._in_transit
        while waiting and self._way not in self._links.blocked:
            due, arrives = waiting[0]
            if due > self._loop.time():
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_at(due, self.deliver_due)
                return
            waiting.popleft()
            arrives()

    def end(self) -> None:
        """Drop all events that were not delivered yet, because the connection was closed or reset."""
        self._in_transit.clear()
        self._network.directions.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()


class Relay(asyncio.Protocol):
    """The asyncio protocol on the TCP socket of a connection between two nodes. It passes received bytes and the connection's end to
    `inner`, the protocol of the node that opened the connection. It does so after the delay of the direction `back` (from the other node),
    and only while this direction is not blocked."""

    transport: RelayTransport

    def __init__(self, inner: asyncio.Protocol, there: Direction, back: Direction) -> None:
        self.inner, self.there, self.back = inner, there, back

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = RelayTransport(cast(asyncio.Transport, transport), self)
        self.inner.connection_made(self.transport)

    def data_received(self, data: bytes) -> None:
        self.back.carry(lambda: self.inner.data_received(data))

    def eof_received(self) -> bool:
        self.back.carry(self._ended)
        return True  # keep the socket open: data on the way to the other end must still arrive

    def _ended(self) -> None:
        if not self.inner.eof_received():
            self.transport.close()

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        if self.transport.aborted:
            self._lost(error)
        else:
            self.back.carry(lambda: self._lost(error))

    def _lost(self, error: Exception | None) -> None:
        self.there.end()
        self.back.end()
        self.inner.connection_lost(error)


class RelayTransport(asyncio.Transport):
    """The asyncio transport to which a node writes on a connection that it has opened. It passes the bytes and the connection's end to the
    TCP socket after the delay of the direction to the other node, and only while this direction is not blocked. `abort` takes effect at
    once."""

    def __init__(self, socket: asyncio.Transport, relay: Relay) -> None:
        super().__init__()
        self._socket, self._relay = socket, relay
        self._closing = self.aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            sent = bytes(data)
            self._relay.there.carry(lambda: self._socket.write(sent))

    def writelines(self, buffers: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(buffers))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._relay.there.carry(self._socket.write_eof)

    def is_closing(self) -> bool:
        return self._closing or self._socket.is_closing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._relay.there.carry(self._socket.close)

    def abort(self) -> None:
        self._closing = self.aborted = True
        self._relay.there.end()
        self._relay.back.end()
        self._socket.abort()

"""One client's connection through a gateway: a transport to the client, a transport to a broker, and a `gateway.session.GatewaySession`,
which turns the bytes of one side into those of the other.

Rules:
- While one peer (client or broker) does not read, the gateway does not read from the other one, so its buffers are limited.
- If one transport ends, the other one is closed after its unsent bytes were written; it is aborted if its peer reads none of them for
  GATEWAY_STILL_MS.
- An invalid frame from either peer ends this connection and no other.
- A connection with very many frames, or full reads (FULL_READS_PER_TURN), continues in the next turn of the event loop, and reads nothing
  before, so that other connections are served in between.
- While a large response is being rewritten, other connections have their turns, and nothing is read from the broker. The gateway decodes
  only one response at a time: decoded, it takes ten times its bytes (14 MiB at most), which the limit on the memory of all connections does
  not count.
- A connection that is over holds no reference cycle, so that its memory is freed at once: the collector's full runs are rare
  (`process.py`), and clients may connect often.
- A connection on which no byte moves is closed, also while a request waits: a broker or a client that vanished would otherwise keep both
  transports for ever. A request that a fault rule (an error scripted for a test) delays or holds does not count as idle.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import Callable, Coroutine
from typing import Any, cast

from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS
from ottla.broker.core.timers import TimerHandle
from ottla.broker.gateway.address_book import Address, AddressBook, ClientsView
from ottla.broker.gateway.interception import Interception, on_thread
from ottla.broker.gateway.session import GatewaySession
from ottla.broker.net.memory_pressure import MemoryPressure
from ottla.broker.net.network import host_and_port, plain_address
from ottla.broker.net.session import ByteBudget
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.protocol.errors import ProtocolError

peer_logger = logging.getLogger(PEERS)

_IDLE_SWEEPS = 10
"""The number of checks in one idle time: an idle connection is closed at most a tenth of that time later."""


class GatewayConnections:
    """The state that all connections of a gateway (a proxy between clients and a cluster) share. `cluster_tls` is the TLS context for
    connections to brokers (None: no TLS). `own_host` is the host name that clients get in Metadata responses; None for the address to which
    the client connected."""

    def __init__(
        self, book: AddressBook, interception: Interception, cluster_tls: ssl.SSLContext | None, own_host: str | None, max_connections: int
    ) -> None:
        self.book = book
        self._max_connections = max_connections
        self.interception = interception
        self.clock = clock = interception.clock
        self.timers = timers = interception.timers
        self.turns = Turns(clock)
        self.cluster_tls = cluster_tls
        self.own_host = own_host
        self.open: dict[GatewayConnection, None] = {}
        self.made = 0
        """The number of connections ever accepted."""
        self.budget = ByteBudget()
        self._memory_pressure = MemoryPressure(self.budget, limits.NODE_RESPONSE_BYTES, timers, clock.mono_ms, lambda: None)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def clients(self) -> int:
        """The number of open client connections."""
        return sum(not each.client.is_lost for each in self.open)

    def refusal(self) -> str | None:
        """Return why a new connection is refused, or None if it is accepted."""
        if len(self.open) >= self._max_connections:
            return f"max.connections={self._max_connections} is reached"
        return "a scripted fault" if self.interception.faults.refuses_connection() else None

    def make(self, node_id: int | None) -> asyncio.Protocol:
        """Return the protocol of a new client's connection to a broker; None stands for any broker."""
        return GatewayConnection(self, node_id).client

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start `work` as a task of one connection, and return the task. `close` cancels it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def memory_is_short(self) -> None:
        """Start to close slow connections that hold much memory (`MemoryPressure`). Call this when all connections together hold more bytes
        than their limit, the byte budget."""
        self._memory_pressure.memory_is_short(self.open)

    def watch_idle(self, max_idle_ms: int) -> None:
        """From now on, close each connection on which no byte moves for `max_idle_ms` (-1: close none)."""
        if max_idle_ms < 0:
            return
        every = max(1, max_idle_ms // _IDLE_SWEEPS)

        def sweep() -> None:
            now = self.clock.mono_ms()
            for connection in list(self.open):
                if connection.is_idle(now - max_idle_ms):
                    peer_logger.info("Closing a connection that was idle for %d ms", max_idle_ms)
                    connection.abort()
            self.timers.schedule(now + every, sweep)

        self.timers.schedule(self.clock.mono_ms() + every, sweep)

    async def close(self) -> None:
        """Close all connections at once."""
        for connection in list(self.open):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.interception.stop()


class _Side(asyncio.Protocol):
    """One of the two transports of a gateway's connection: to the client, or to the broker."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection: GatewayConnection | None = connection
        self._reading = True
        self.transport: asyncio.Transport | None = None
        self.is_full = False
        """Whether the transport holds too many unsent bytes."""
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._connection is None:  # the client left in the same turn
            cast(asyncio.Transport, transport).abort()
            return
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(limits.GATEWAY_WRITE_HIGH_BYTES, limits.GATEWAY_WRITE_LOW_BYTES)
        connected = transport.get_extra_info("socket")
        if connected is not None:  # a peer that vanished without closing would keep both connections for ever
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._connection.made(self)

    def data_received(self, data: bytes) -> None:
        if self._connection is not None:
            self._connection.received(self, data)

    def pause_writing(self) -> None:
        self.is_full = True
        if self._connection is not None:
            self._connection.update_reading()

    def resume_writing(self) -> None:
        self.is_full = False
        if self._connection is not None:
            self._connection.record_activity()
            self._connection.update_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        if self._connection is not None:
            self._connection.lost()

    def release(self) -> None:
        """Drop the reference to the connection, which has ended, so that no reference cycle remains."""
        self._connection = None

    def write(self, buffers: list[Any]) -> None:
        """Write `buffers` to the transport in order; do nothing if the transport is closing."""
        if buffers and self.transport is not None and not self.transport.is_closing():
            self.transport.writelines(buffers)

    def read(self, wanted: bool) -> None:
        """Read from the peer if `wanted` is true; otherwise pause reading."""
        if self._reading != wanted and self.transport is not None and not self.transport.is_closing():
            self._reading = wanted
            if wanted:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    @property
    def is_closing(self) -> bool:
        """Whether the transport is being closed: `close` was called, and `connection_lost` was not."""
        return self.transport is not None and not self.is_lost and self.transport.is_closing()

    def abort(self) -> None:
        """Close the transport at once."""
        if self.transport is not None:
            self.transport.abort()

    def reset(self) -> None:
        """Close the transport at once with a reset (RST), as if nobody listened on the port."""
        if self.transport is not None:
            connected = self.transport.get_extra_info("socket")
            if connected is not None:
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

    def unsent(self) -> int:
        """Return the number of written bytes that the operating system has not accepted; 0 without an open transport."""
        return 0 if self.transport is None or self.is_lost else self.transport.get_write_buffer_size()


class GatewayConnection:
    """One client's connection through the gateway, a proxy, to the broker `node_id`, or to any broker (None)."""

    def __init__(self, shared: GatewayConnections, node_id: int | None) -> None:
        self._shared = shared
        self._node_id = node_id
        self._accounted = self._last_held = 0
        self.record_activity()
        self._dialling: asyncio.Task[None] | None = None
        self._rewriting: asyncio.Task[None] | None = None
        self._ending: TimerHandle | None = None
        self._full_reads = 0
        self._next_turn: asyncio.Handle | None = None
        """The scheduled call that continues in the next turn of the event loop; until then, nothing is read."""
        self.client = _Side(self)
        self._cluster = _Side(self)
        self._session: GatewaySession

    def made(self, side: _Side) -> None:
        """Handle an established transport: for a client, start to connect to a broker; for the broker, start to read from the client."""
        shared, transport = self._shared, side.transport
        assert transport is not None
        if side is self._cluster:
            self.flush()
            return
        shared.made += 1
        local = transport.get_extra_info("sockname")
        view = ClientsView(shared.book, shared.own_host or plain_address(local[0]))
        self._session = GatewaySession(view, shared.interception, shared.made, self._changed)
        refusal = shared.refusal()
        shared.open[self] = None
        if refusal is not None:
            peer_logger.warning("Refused a connection from %s: %s", (transport.get_extra_info("peername") or ("?",))[0], refusal)
            transport.abort()
            return
        # uvloop ignores a pause in this method, so `update_reading` pauses reading when the first bytes are there.
        self._dialling = shared.start(self._dial())

    def record_activity(self) -> None:
        """Store the present time as that of the last transferred byte, for `is_idle`."""
        self._last_moved_ms = self._shared.clock.mono_ms()

    def is_idle(self, since_ms: int) -> bool:
        """Return whether no byte was transferred after `since_ms` (monotonic time), and no fault rule (an error scripted for a test) holds
        a request."""
        return self._last_moved_ms <= since_ms and not self._session.is_held

    def received(self, side: _Side, data: bytes) -> None:
        """Process bytes that arrived at `side`: from the client or from the broker."""
        self.record_activity()
        if len(data) >= limits.FULL_READ_BYTES:
            self._full_reads += 1
        self._process(self._session.from_client if side is self.client else self._session.from_cluster, data)

    def _process(self, process: Callable[..., None], *data: bytes) -> None:
        """Call `process`, a method of the session (which turns the bytes of one side into those of the other), with `data`, and write its
        output. If it raises ProtocolError, end the connection.
        """
        try:
            process(*data)
        except ProtocolError as error:
            # Not the error itself: its traceback refers to this connection, and a handler may keep what is logged.
            peer_logger.warning("Closing a connection: %s", str(error))
            self._session.ends = True
        self.flush()

    def _changed(self) -> None:
        """Continue with the client's requests, because a request that a fault rule (an error scripted for a test) held back has made
        progress."""
        self._process(self._session.resume)

    def _continue(self) -> None:
        """Process the frames that wait, and read again: other connections have had their turns."""
        self._next_turn = None
        self._full_reads = 0
        self._process(self._session.resume)

    def flush(self) -> None:
        """Write ready requests and responses, end the connection if it must end, and pause or resume reading (`update_reading`)."""
        if self.client.transport is not None:
            self.client.write(self._session.take_to_client())
        if self._cluster.transport is not None:
            self._cluster.write(self._session.take_to_cluster())
        if self._session.ends or self.client.is_lost or self._cluster.is_lost:
            self._end()
        if self._session.is_rewriting and self._rewriting is None:
            self._rewriting = self._shared.start(self._rewrite())
        if self._next_turn is None and (self._session.needs_turn or self._full_reads >= limits.FULL_READS_PER_TURN):
            self._next_turn = asyncio.get_running_loop().call_soon(self._continue)
        self.update_reading()

    def update_reading(self) -> None:
        """Read from the client only while the broker reads the forwarded bytes, and from the broker only while the client does; pause
        reading otherwise, and until the next turn of the event loop if there is work for it.
        """
        may_read = self._next_turn is None
        self.client.read(may_read and self._cluster.transport is not None and not self._cluster.is_full and not self._session.is_full)
        self._cluster.read(may_read and not self.client.is_full and not self._session.is_rewriting)
        self._account()

    def lost(self) -> None:
        """End the connection, because a transport has ended. Requests that were received are still sent to the broker, even if the
        transport to the broker is not connected yet or a fault rule (an error scripted for a test) delays them."""
        if self._cluster.is_lost:
            self._session.lose_cluster()
        self._end()
        is_unconnected = self._cluster.transport is None and not self._session.needs_cluster
        if self.client.is_lost and (self._cluster.is_lost or is_unconnected):
            self._shared.open.pop(self, None)
            self._release()
        self._account()

    def _release(self) -> None:
        """Cancel the tasks of this connection that still run, and drop the references that form cycles."""
        for running in (self._ending, self._dialling, self._rewriting, self._next_turn):
            if running is not None:
                running.cancel()
        self._ending = self._dialling = self._rewriting = self._next_turn = None
        for side in (self.client, self._cluster):
            side.release()
        self._session.release()

    def held_bytes(self) -> int:
        """Return the number of bytes that this connection holds: parts of frames, and bytes that were not sent yet to either peer."""
        return self._session.held_bytes + self.client.unsent() + self._cluster.unsent()

    def moved_bytes(self) -> int:
        """Return by how many bytes `held_bytes` changed since the last call of this method."""
        before, self._last_held = self._last_held, self.held_bytes()
        return abs(self._last_held - before)

    waits_for_memory = False
    """Always False, because a gateway does not stop reading when all its connections together hold too much memory; it limits the memory of
    each connection instead."""

    def abort(self) -> None:
        """Close both transports at once; unsent bytes are lost."""
        for side in (self.client, self._cluster):
            side.abort()

    def _end(self) -> None:
        sides = [self.client] if self._session.needs_cluster and not self._cluster.is_lost else [self.client, self._cluster]
        for side in sides:
            if side.transport is not None and not side.transport.is_closing():
                side.transport.close()
        if self._ending is None:
            self._watch_end()

    def _watch_end(self) -> None:
        """Abort the closing transports when the peers have read none of their unsent bytes for GATEWAY_STILL_MS."""
        closing = self._closing()
        unsent = sum(side.unsent() for side in closing)

        def look() -> None:
            self._ending, closing = None, self._closing()
            if sum(side.unsent() for side in closing) < unsent:
                self._watch_end()
                return
            for side in closing:
                side.abort()

        if closing:
            self._ending = self._shared.timers.schedule(self._shared.clock.mono_ms() + limits.GATEWAY_STILL_MS, look)

    def _closing(self) -> list[_Side]:
        return [side for side in (self.client, self._cluster) if side.is_closing]

    def _account(self) -> None:
        held = 0 if self.client.is_lost and self._cluster.is_lost else self.held_bytes()
        budget = self._shared.budget
        budget.used += held - self._accounted
        self._accounted = held
        if budget.is_exhausted():
            self._shared.memory_is_short()

    async def _rewrite(self) -> None:
        """Rewrite large responses in parts, with turns of other connections in between, until none is left to rewrite."""
        while self._session.is_rewriting:
            if self._session.has_work:
                async with self._shared.interception.decoding:
                    while self._session.has_work:
                        await on_thread(self._session.compute)
                        await self._rewrite_more()
            else:
                await self._rewrite_more()
        self._rewriting = None

    async def _rewrite_more(self) -> None:
        await self._shared.turns.wait_for_turn()
        self.record_activity()
        self._process(self._session.rewrite_more)

    async def _dial(self) -> None:
        """Connect to the first reachable of the addresses that the address book has for the broker. If none is reachable, reset the
        client's connection: if the connection ended without a reset before the first response, clients would suspect a TLS or SASL
        listener, and some would give up (franz-go).
        """
        failures = []
        for address in self._shared.book.candidates(self._node_id):
            try:
                await self._connect(address)
            except (OSError, ValueError) as error:  # ssl.SSLError, and UnicodeError for what cannot be a host name
                advice = "" if self._shared.cluster_tls is None else _tls_advice(error)
                failures.append(f"{host_and_port(*address)}: {_reason(error)}{advice}")
            else:
                return
        broker = "the cluster" if self._node_id is None else f"broker {self._node_id}"
        peer_logger.warning("Closing a client's connection, because %s cannot be reached: %s", broker, "; ".join(failures))
        self._cluster.is_lost = True
        self.client.reset()
        self.lost()

    async def _connect(self, address: Address) -> None:
        shared, loop = self._shared, asyncio.get_running_loop()
        tls = shared.cluster_tls
        name = None if tls is None else address.host
        attempt = asyncio.ensure_future(loop.create_connection(lambda: self._cluster, *address, ssl=tls, server_hostname=name))
        try:
            if await wait_at_most(shared.timers, shared.clock, limits.GATEWAY_DIAL_MS, [attempt]):
                raise TimeoutError(f"no connection in {limits.GATEWAY_DIAL_MS} ms")
            await attempt
        finally:
            attempt.cancel()
            del attempt  # its exception's traceback refers to this frame: a reference cycle


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return getattr(error, "verify_message", None) or error.reason or str(error)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _tls_advice(error: OSError | ValueError) -> str:
    """Return what to change if the connection to a broker failed with `error` because of TLS; an empty text if TLS is not the cause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return " (name the certificate's authority by ssl.truststore.location in --to-config, and the broker by a host of its certificate)"
    if isinstance(error, ssl.SSLError | ConnectionResetError):
        return " (the TLS handshake failed: if the listener does not use TLS, correct security.protocol in --to-config)"
    return ""

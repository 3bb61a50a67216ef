"""The asyncio protocol of one client connection. It moves bytes between a transport and a `session.Session`, which decides when to read,
write and close."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast
from weakref import ref

from ottla.broker.api.context import Listener, Peer
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.descriptors import max_connections
from ottla.broker.core.ip_overrides import ip_overrides
from ottla.broker.core.peer_log import PEERS
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import TimerHandle, Timers
from ottla.broker.net.memory_pressure import MemoryPressure
from ottla.broker.net.network import plain_address
from ottla.broker.net.session import ByteBudget, Session

if TYPE_CHECKING:
    from ottla.broker.quotas.connections import ConnectionDecision

peer_logger = logging.getLogger(PEERS)


class MaxConnections(NamedTuple):
    """The maximum numbers of connections: of the process, of the broker (`in_all`), at one listener, and from one address. `of_brokers` is
    true at the inter-broker listener. There, a connection that exceeds `in_all` is accepted, and the longest idle connection of another
    listener is closed in its place (KIP-402)."""

    in_process: int = 2**31 - 1
    in_all: int = 2**31 - 1
    at_listener: int = 2**31 - 1
    from_address: int = 2**31 - 1
    of_brokers: bool = False


def connection_limits(settings: BrokerSettings, between_brokers: str | None = None) -> Callable[[str, str], MaxConnections]:
    """Return a function that returns the current limits for a listener's name and a client's address. `between_brokers` is the name of the
    inter-broker listener, if clients use other listeners. The limit of the process leaves file descriptors for the logs.
    """
    in_process = max_connections()
    return lambda listener, host: MaxConnections(
        in_process,
        settings.max_connections,
        settings.max_connections_of(listener),
        ip_overrides(settings.max_connections_per_ip_overrides).get(host, settings.max_connections_per_ip),
        of_brokers=listener == between_brokers,
    )


class SharedConnectionState:
    """The state that all connections of a broker share: the dispatcher, the limits and the open connections."""

    _in_process: ClassVar[tuple[ref[SharedConnectionState], ...]] = ()
    """All objects of this class in the process, which may run several brokers and controllers, also on several threads. The limit on open
    connections of the process counts the connections of all of them."""

    def __init__(
        self, dispatcher: Dispatcher, clock: Clock, timers: Timers, max_request_bytes: int, budget: ByteBudget | None = None
    ) -> None:
        self.dispatcher = dispatcher
        self.clock = clock
        self.timers = timers
        self.mono_ms = clock.mono_ms
        self.max_request_bytes = max_request_bytes
        self.budget = dispatcher.budget = budget or ByteBudget()
        self._memory_pressure = MemoryPressure(
            self.budget, max(max_request_bytes, limits.FETCH_PARTITION_READ_BYTES), timers, self.mono_ms, self.wake_starved
        )
        self.max_connections: Callable[[str, str], MaxConnections] = lambda _listener, _host: MaxConnections()
        """A function that returns the connection limits for a listener's name and a client's address. They may change at run time."""
        self.check_connection: Callable[[str, str], ConnectionDecision | None] = lambda _listener, _host: None
        """A function that returns the decision of the connection quotas about a new connection (None: no quota), for a listener's name and
        a client's address."""
        self.connections: dict[Connection, None] = {}
        """The open connections, in the order of acceptance. A set is not used, because its order would differ from run to run."""
        self.per_listener: Counter[str] = Counter()
        self.per_ip: Counter[str] = Counter()
        self.waiting_for_memory: dict[Connection, None] = {}
        self.refused_by_script: Callable[[], bool] | None = None
        """A function that returns whether a fault rule, an error scripted for a test, refuses a new connection; None if there are no fault
        rules."""
        self.stopping = False
        """True once the broker stops. Connections that the operating system hands over after that are refused."""
        self.made = 0
        """The number of connections ever accepted."""
        self._empty: asyncio.Future[None] | None = None
        SharedConnectionState._in_process = (*(each for each in SharedConnectionState._in_process if each() is not None), ref(self))

    @staticmethod
    def count_in_process() -> int:
        """Return the number of open connections of all brokers and controllers in this process."""
        return sum(len(shared.connections) for each in SharedConnectionState._in_process if (shared := each()) is not None)

    def until_empty(self) -> asyncio.Future[None]:
        """Return a future that is done when no connection is left."""
        self._empty = asyncio.get_running_loop().create_future()
        if not self.connections:
            self._empty.set_result(None)
        return self._empty

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection from the open connections."""
        self.connections.pop(connection, None)
        self.waiting_for_memory.pop(connection, None)
        if not self.connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def refusal(self, listener: str, host: str) -> str | None:
        """Return why a connection from `host` is refused, or None if it is accepted."""
        if self.stopping:
            return "the broker is stopping"
        maximum = self.max_connections(listener, host)
        if self.count_in_process() >= maximum.in_process:
            return f"{maximum.in_process} connections are open, half of what the limit of open files allows: the rest is for files"
        if len(self.connections) >= maximum.in_all and not maximum.of_brokers:
            return f"max.connections={maximum.in_all} is reached"
        if self.per_listener[listener] >= maximum.at_listener:
            return f"listener.name.{listener.lower()}.max.connections={maximum.at_listener} is reached"
        if self.per_ip[host] >= maximum.from_address:
            return f"max.connections.per.ip or its override, {maximum.from_address} connections from one address, is reached"
        if self.refused_by_script is not None and self.refused_by_script():
            return "a scripted fault"
        return None

    def make_room(self, listener: str, host: str) -> None:
        """If the broker has more connections than max.connections allows, close the longest idle connection that is not at `listener`, the
        listener of a new connection from `host`."""
        if len(self.connections) <= self.max_connections(listener, host).in_all:
            return
        others = [connection for connection in self.connections if connection.listener.name != listener]
        if others:
            peer_logger.warning("Closing the connection that was idle longest: max.connections is reached and a broker has connected")
            silent = min(others, key=lambda connection: connection.last_active_ms)
            del self.connections[silent]  # so that the next broker connection closes another one
            silent.abort()

    def memory_is_short(self) -> None:
        """Start to close slow connections that hold much memory (`MemoryPressure`). Call this when all connections together hold more bytes
        than their limit, the byte budget."""
        self._memory_pressure.memory_is_short(self.connections)

    def wake_starved(self) -> None:
        """Resume the connections that stopped reading because all connections together held more memory than their limit, the
        byte budget."""
        if self.waiting_for_memory and not self.budget.is_exhausted():
            waiting, self.waiting_for_memory = self.waiting_for_memory, {}
            for connection in waiting:
                connection.flush()


class Connection(asyncio.Protocol):
    """One client connection. Reading pauses when the session requires it; responses are written as lists of buffers."""

    def __init__(self, shared: SharedConnectionState, listener: Listener) -> None:
        self._shared = shared
        self.listener = listener
        self._reading = True
        self._full_reads = 0
        self._scheduled = False
        self._lingers = False
        self._held_output = 0
        self._last_counted = (0, 0, 0)
        """The bytes of unhandled requests, of unread responses, and of a large request that waits, at the last call of `moved_bytes`."""
        self.last_active_ms = 0
        self.peer: Peer | None = None
        self._throttle_end: TimerHandle | None = None
        """The timer that ends a throttling by a quota; while it is set, no request is handled."""
        self._linger_end: TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the new connection. Close it if a connection limit is exceeded. If a quota on new connections requires it, delay the
        connection's requests, or close the connection after the delay."""
        shared = self._shared
        self._transport = cast(asyncio.Transport, transport)
        remote = transport.get_extra_info("peername") or ("", 0)
        local = transport.get_extra_info("sockname") or (self.listener.host, self.listener.port)
        shared.made += 1
        host = plain_address(remote[0])
        peer = self.peer = Peer(host, plain_address(local[0]), local[1], self.listener, number=shared.made, port=remote[1])
        peer.throttle = self.throttle
        dispatcher = shared.dispatcher
        self._session = Session(
            partial(dispatcher.handle, peer),
            self._answered,
            shared.budget,
            shared.max_request_bytes,
            partial(dispatcher.try_fast_path, peer),
            spent_ns=shared.clock.spent_ns,
        )
        reason = shared.refusal(self.listener.name, host)
        shared.connections[self] = None
        shared.per_listener[self.listener.name] += 1
        shared.per_ip[host] += 1
        if reason is not None:
            peer_logger.warning("Refused a connection from %s: %s", host, reason)
            self._session.stop_reading()
            self._transport.abort()
            return
        shared.make_room(self.listener.name, host)
        self._transport.set_write_buffer_limits(limits.WRITE_HIGH_BYTES, limits.WRITE_LOW_BYTES)
        self.last_active_ms = shared.mono_ms()
        if (decision := shared.check_connection(self.listener.name, host)) is not None and decision.wait_ms:
            self.throttle(decision.wait_ms, at_the_end=self._close_refused if decision.refused else None)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes that the client sent to the session, and write the responses that are ready."""
        if self._lingers:
            return
        self.last_active_ms = self._shared.mono_ms()
        self._session.receive(data)
        if len(data) >= limits.FULL_READ_BYTES:
            self._full_reads += 1
            if self._full_reads == limits.FULL_READS_PER_TURN:
                self._transport.pause_reading()
                asyncio.get_running_loop().call_soon(self._next_turn)
        self.flush()

    def _next_turn(self) -> None:
        """Read from the client again: the connection had paused, so that other connections are served in between."""
        self._full_reads = 0
        if self._reading and not self._transport.is_closing():
            self._transport.resume_reading()

    def flush(self) -> None:
        """Write ready responses. Then pause or resume reading, schedule the handling of requests that are not handled yet, or close the
        connection, as the session requires.
        """
        session, transport = self._session, self._transport
        out = session.take_output()
        if out:
            transport.writelines(out)
            if session.write_blocked:
                self._count_output()
        shared = self._shared
        if not session.paused:
            if not self._reading:
                self._reading = True
                transport.resume_reading()
        elif session.finished:
            self._close()
        else:
            if session.runnable and not self._scheduled:
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._run_backlog)
            if self._reading:
                self._reading = False
                transport.pause_reading()
            if session.waits_for_memory:
                shared.waiting_for_memory[self] = None
        if shared.budget.is_exhausted():
            shared.memory_is_short()
        elif shared.waiting_for_memory:
            shared.wake_starved()

    def _close(self) -> None:
        """Close the connection so that the last responses arrive.

        If received data is unread, close() resets the TCP connection: responses on their way to the peer are lost. Therefore only the write
        side is closed at first; the peer has LINGER_MS to close its side, and more while it still reads the responses.
        """
        if self._lingers or self._transport.is_closing():  # an earlier write may have found that the peer closed
            return
        if self._shared.mono_ms() - self.last_active_ms >= limits.LINGER_MS and not self._transport.get_write_buffer_size():
            self._transport.close()
            return
        self._lingers = True
        self._transport.write_eof()
        if not self._reading:
            self._transport.resume_reading()
        self._linger()

    def _linger(self) -> None:
        self._linger_end = self._shared.timers.schedule(self._shared.mono_ms() + limits.LINGER_MS, self._lingered)

    def _lingered(self) -> None:
        if self._transport.get_write_buffer_size():
            self._linger()
        else:
            self._transport.close()

    def _answered(self) -> None:
        """Write the response of the pending request, which is ready now, and continue with the next request."""
        self.last_active_ms = self._shared.mono_ms()
        self.flush()

    def _run_backlog(self) -> None:
        """Handle requests that were received but not handled yet, as many as one turn of the loop allows, and write their responses."""
        self._scheduled = False
        self._session.run()
        self.flush()

    def throttle(self, ms: int, at_the_end: Callable[[], None] | None = None) -> None:
        """Handle no request for `ms` milliseconds, then call `at_the_end` or, by default, handle requests again. The current response is
        sent at once (KIP-219).
        """
        if self._transport.is_closing():
            return
        self._session.throttled = True
        self._throttle_end = self._shared.timers.schedule(self._shared.mono_ms() + ms, at_the_end or self._throttled)

    def _close_refused(self) -> None:
        peer_logger.warning(
            "Closing a connection: too many new connections (max.connection.creation.rate or its address's connection_creation_rate)"
        )
        self.abort()

    def _throttled(self) -> None:
        self._throttle_end = None
        self._session.throttled = False
        self.last_active_ms = self._shared.mono_ms()
        if not self._transport.is_closing():
            self._session.run()
            self.flush()

    def pause_writing(self) -> None:
        """Handle no further request, because the transport has too many unsent bytes: the peer reads its responses too slowly."""
        self._session.write_blocked = True
        self._count_output()

    def resume_writing(self) -> None:
        """Handle requests again, because the client has read most of the responses that were unsent."""
        self._session.write_blocked = False
        self._release_output()
        self.last_active_ms = self._shared.mono_ms()
        if not self._transport.is_closing():
            self.flush()
        self._shared.wake_starved()

    def eof_received(self) -> bool:
        """Close the transport, as Kafka does when a peer closes its write side; pending requests are dropped."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Release everything that the closed connection holds, and call its `on_closed` callbacks."""
        shared = self._shared
        self._session.lost()
        self._release_output()
        for timer in (self._throttle_end, self._linger_end):
            if timer is not None:
                timer.cancel()
        shared.forget(self)
        if self.peer is not None:
            self.peer.closed()
            shared.per_listener[self.listener.name] -= 1
            shared.per_ip[self.peer.host] -= 1
            if not shared.per_ip[self.peer.host]:
                del shared.per_ip[self.peer.host]
        shared.wake_starved()

    @property
    def session(self) -> Session:
        """The session, which handles this connection's requests; it exists from `connection_made` on."""
        return self._session

    @property
    def idle(self) -> bool:
        """Whether the connection has nothing to do: no request is pending, and it is not throttled."""
        return not self._session.waiting and self._throttle_end is None

    def held_bytes(self) -> int:
        """Return the number of bytes that this connection holds in memory: unhandled requests, a large request that waits, and
        responses that the peer has not read. Return 0 after the close."""
        return 0 if self._transport.is_closing() else self._session.unhandled + self._waiting_bytes() + self._held_output

    def moved_bytes(self) -> int:
        """Return by how many bytes `held_bytes` changed since the last call, in either direction."""
        if self._held_output:
            self._count_output()
        before = self._last_counted
        self._last_counted = (self._session.unhandled, self._held_output, self._waiting_bytes())
        return sum(abs(now - earlier) for now, earlier in zip(self._last_counted, before, strict=True))

    def _waiting_bytes(self) -> int:
        return 0 if self.peer is None else self.peer.waiting_bytes

    @property
    def waits_for_memory(self) -> bool:
        """Whether the rest of a partly received request is not read because memory is short."""
        return self._session.waits_for_memory

    def stop_reading(self) -> None:
        """Stop the connection gracefully: answer the requests in flight, then close."""
        self._session.stop_reading()
        self.flush()

    def abort(self) -> None:
        """Close the connection at once, without waiting for unsent output. Its memory counts as free at once."""
        self._session.lost()
        self._transport.abort()
        self._release_output()
        if self.peer is not None:
            self.peer.closed()

    def _count_output(self) -> None:
        size = self._transport.get_write_buffer_size()
        self._shared.budget.used += size - self._held_output
        self._held_output = size

    def _release_output(self) -> None:
        self._shared.budget.used -= self._held_output
        self._held_output = 0

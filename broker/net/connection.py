"""The asyncio shell of one connection: moves bytes between a transport and its session, and does what the session says. Decides nothing."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.broker.api.context import Listener, Peer
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.ip_overrides import ip_overrides
from ottla.broker.core.peer_log import PEERS
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import TimerHandle, Timers
from ottla.broker.net.listeners import plain_address
from ottla.broker.net.session import ByteBudget, Session
from ottla.broker.net.shedding import Shedding

if TYPE_CHECKING:
    from ottla.broker.quotas.connections import Acceptance

peer_logger = logging.getLogger(PEERS)


class MostConnections(NamedTuple):
    """How many connections there may be at a time: in all, at the listener, and from the address. Beyond the first limit a connection at
    the listener `of_brokers` takes the place of one at another (KIP-402)."""

    in_all: int = 2**31 - 1
    at_listener: int = 2**31 - 1
    from_address: int = 2**31 - 1
    of_brokers: bool = False


def connection_limits(settings: BrokerSettings, between_brokers: str | None = None) -> Callable[[str, str], MostConnections]:
    """As the settings have them now, at a listener from an address. `between_brokers` is the listener of brokers beside others."""
    return lambda listener, host: MostConnections(
        settings.max_connections,
        settings.max_connections_of(listener),
        ip_overrides(settings.max_connections_per_ip_overrides).get(host, settings.max_connections_per_ip),
        of_brokers=listener == between_brokers,
    )


class Shared:
    """What all connections of a broker have in common: the dispatcher, the bounds, and the set of those that live."""

    def __init__(
        self, dispatcher: Dispatcher, clock: Clock, timers: Timers, max_request_bytes: int, budget: ByteBudget | None = None
    ) -> None:
        self.dispatcher = dispatcher
        self.clock = clock
        self.timers = timers
        self.mono_ms = clock.mono_ms
        self.max_request_bytes = max_request_bytes
        self.budget = dispatcher.budget = budget or ByteBudget()
        self._shedding = Shedding(
            self.budget, max(max_request_bytes, limits.FETCH_PARTITION_READ_BYTES), timers, self.mono_ms, self.wake_starved
        )
        self.most_connections: Callable[[str, str], MostConnections] = lambda _listener, _host: MostConnections()
        """For a connection at a listener from an address; they may change while the broker runs."""
        self.acceptance: Callable[[str, str], Acceptance | None] = lambda _listener, _host: None
        """How a connection at a listener from an address is accepted, where quotas hold it back."""
        self.connections: dict[Connection, None] = {}
        """In the order in which they came, as `starved`: a set's order would differ from run to run."""
        self.per_listener: Counter[str] = Counter()
        self.per_ip: Counter[str] = Counter()
        self.starved: dict[Connection, None] = {}
        self.refused_by_script: Callable[[], bool] | None = None
        """Asked for each new connection where faults are scripted."""
        self.stopping = False
        """Set when no more are to come: some may be on their way from the listener."""
        self.made = 0
        """Connections that ever were."""
        self._empty: asyncio.Future[None] | None = None

    def until_empty(self) -> asyncio.Future[None]:
        """Done when no connection is left."""
        self._empty = asyncio.get_running_loop().create_future()
        if not self.connections:
            self._empty.set_result(None)
        return self._empty

    def forget(self, connection: Connection) -> None:
        """`connection` is gone."""
        self.connections.pop(connection, None)
        self.starved.pop(connection, None)
        if not self.connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def refusal(self, listener: str, host: str) -> str | None:
        """Why a connection from `host` is not accepted, or None."""
        if self.stopping:
            return "the broker stops"
        most = self.most_connections(listener, host)
        if len(self.connections) >= most.in_all and not most.of_brokers:
            return f"max.connections={most.in_all} is reached"
        if self.per_listener[listener] >= most.at_listener:
            return f"listener.name.{listener.lower()}.max.connections={most.at_listener} is reached"
        if self.per_ip[host] >= most.from_address:
            return f"{most.from_address} connections of one address (max.connections.per.ip, or its overrides) are reached"
        if self.refused_by_script is not None and self.refused_by_script():
            return "a scripted fault"
        return None

    def make_room(self, listener: str, host: str) -> None:
        """One was accepted: where that is beyond the limit, close the one at another listener that was silent for longest."""
        if len(self.connections) <= self.most_connections(listener, host).in_all:
            return
        others = [connection for connection in self.connections if connection.listener.name != listener]
        if others:
            peer_logger.warning("Closing the connection that was silent for longest: max.connections is reached, and a broker has come")
            silent = min(others, key=lambda connection: connection.last_active_ms)
            del self.connections[silent]  # the next to come closes another one
            silent.abort()

    def memory_is_short(self) -> None:
        """See to it that connections which hold memory and are slow give it back."""
        self._shedding.memory_is_short(self.connections)

    def wake_starved(self) -> None:
        """Let connections read again that stopped because the byte budget was spent."""
        if self.starved and not self.budget.is_exhausted():
            starved, self.starved = self.starved, {}
            for connection in starved:
                connection.flush()


class Connection(asyncio.Protocol):
    """One client. Reading pauses while the session says so; replies are written as lists of buffers."""

    def __init__(self, shared: Shared, listener: Listener) -> None:
        self._shared = shared
        self.listener = listener
        self._reading = True
        self._full_reads = 0
        self._goes_on = False
        self._lingers = False
        self._held_output = 0
        self._looked = (0, 0)
        """Bytes of requests and of output when `moved_bytes` was called last."""
        self.last_active_ms = 0
        self.peer: Peer | None = None
        self._throttle_end: TimerHandle | None = None
        """While nothing more is handled, because of quotas."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it when there are too many."""
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
            dispatcher.at_once,
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
        if (acceptance := shared.acceptance(self.listener.name, host)) is not None and acceptance.wait_ms:
            self.throttle(acceptance.wait_ms, at_the_end=self._throttled_off if acceptance.refused else None)

    def data_received(self, data: bytes) -> None:
        """Bytes of the peer."""
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
        """Read on after a turn in which others were read."""
        self._full_reads = 0
        if self._reading and not self._transport.is_closing():
            self._transport.resume_reading()

    def flush(self) -> None:
        """Write what is ready, see to it that the backlog goes on if there is room again, and start or stop reading accordingly."""
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
            if session.runnable and not self._goes_on:
                self._goes_on = True
                asyncio.get_running_loop().call_soon(self._go_on)
            if self._reading:
                self._reading = False
                transport.pause_reading()
            if session.waits_for_memory:
                shared.starved[self] = None
        if shared.budget.is_exhausted():
            shared.memory_is_short()
        elif shared.starved:
            shared.wake_starved()

    def _close(self) -> None:
        """Close so that the last answers arrive. Where something is unread, close() resets the connection: what is on its way to the peer
        is lost, and one that writes meanwhile fails before it has read. So the peer is told first that nothing more comes, and has time
        to leave by itself.
        """
        if self._lingers or self._transport.is_closing():  # a write before this may have found the peer gone
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
        self._shared.timers.schedule(self._shared.mono_ms() + limits.LINGER_MS, self._lingered)

    def _lingered(self) -> None:
        if self._transport.get_write_buffer_size():
            self._linger()
        else:
            self._transport.close()

    def _answered(self) -> None:
        """The answer that the session waited for is there."""
        self.last_active_ms = self._shared.mono_ms()
        self.flush()

    def _go_on(self) -> None:
        """The backlog's next turn."""
        self._goes_on = False
        self._session.run()
        self.flush()

    def throttle(self, ms: int, at_the_end: Callable[[], None] | None = None) -> None:
        """Handle nothing more for so long, and then go on; the answer in hand is sent (KIP-219)."""
        if self._transport.is_closing():
            return
        self._session.throttled = True
        self._throttle_end = self._shared.timers.schedule(self._shared.mono_ms() + ms, at_the_end or self._throttled)

    def _throttled_off(self) -> None:
        peer_logger.warning(
            "Closing a connection: they come too fast (max.connection.creation.rate, or connection_creation_rate of its address)"
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
        """The peer reads more slowly than we answer: start nothing more."""
        self._session.write_blocked = True
        self._count_output()

    def resume_writing(self) -> None:
        """The peer caught up."""
        self._session.write_blocked = False
        self._release_output()
        self.last_active_ms = self._shared.mono_ms()
        if not self._transport.is_closing():
            self.flush()
        self._shared.wake_starved()

    def eof_received(self) -> bool:
        """A peer that will send no more has gone, as in Kafka: the transport closes, and parked requests are dropped with it."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection; what waits for it is told."""
        shared = self._shared
        self._session.lost()
        self._release_output()
        if self._throttle_end is not None:
            self._throttle_end.cancel()
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
        """Its requests and responses; once it is made."""
        return self._session

    @property
    def idle(self) -> bool:
        """True when no request of this connection waits for an answer, and it does not have to wait."""
        return not self._session.waiting and self._throttle_end is None

    def held_bytes(self) -> int:
        """Bytes of requests that were not handled and of responses that the peer has not taken; 0 once it is closed."""
        return 0 if self._transport.is_closing() else self._session.unhandled + self._held_output

    def moved_bytes(self) -> int:
        """By how much these changed since the last call."""
        if self._held_output:
            self._count_output()
        unhandled, output = self._looked
        self._looked = (self._session.unhandled, self._held_output)
        return abs(self._looked[0] - unhandled) + abs(self._looked[1] - output)

    def stop_reading(self) -> None:
        """Graceful stop: answer what is in flight, then close."""
        self._session.stop_reading()
        self.flush()

    def abort(self) -> None:
        """Close without waiting for unsent output; nothing more is handled."""
        self._session.lost()
        self._transport.abort()

    def _count_output(self) -> None:
        size = self._transport.get_write_buffer_size()
        self._shared.budget.used += size - self._held_output
        self._held_output = size

    def _release_output(self) -> None:
        self._shared.budget.used -= self._held_output
        self._held_output = 0

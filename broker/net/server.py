"""A broker's listening sockets, and the work on all of its connections: closing idle connections, and stopping."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ottla.broker.api.context import Listener
from ottla.broker.core.peer_log import PEERS
from ottla.broker.net.connection import Connection, SharedConnectionState
from ottla.broker.net.network import BoundAddress, MakeProtocol, Network
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most

if TYPE_CHECKING:
    from ottla.broker.net.listener_authentication import ListenerAuthentication

logger = logging.getLogger(__name__)
peer_logger = logging.getLogger(PEERS)

ANYWHERE: Final = "0.0.0.0"
_IDLE_SWEEPS = 10
"""The number of checks in connections.max.idle.ms: an idle connection is closed at most a tenth of that time later."""


NO_AUTHENTICATION: Final[Mapping[str, ListenerAuthentication]] = MappingProxyType({})


def _maker(shared: SharedConnectionState, listener: Listener, at_listener: ListenerAuthentication | None) -> MakeProtocol:
    if at_listener is None:
        assert not listener.protocol, "a secured listener must have its security configuration"
        return partial(Connection, shared, listener)
    from ottla.broker.net.secured_connection import SecuredConnection  # noqa: PLC0415 # a broker with PLAINTEXT listeners does not load it

    return partial(SecuredConnection, shared, listener, at_listener)


class Server:
    """All listeners of a broker. `listeners` have their configured ports; after `bind`, a listener with port 0 has the port that
    the system chose."""

    def __init__(self, network: Network, listeners: Sequence[Listener], backlog: int) -> None:
        self._network = network
        self.listeners: list[Listener] = list(listeners)
        self._backlog = backlog
        self._bound: list[BoundAddress] = []
        self._shared: SharedConnectionState | None = None

    def bind(self) -> None:
        """Bind every listener's address without accepting connections. Raises OSError with the name of the listener that fails."""
        try:
            for position, listener in enumerate(self.listeners):
                bound = self._bind(listener)
                self._bound.append(bound)
                self.listeners[position] = replace(listener, port=bound.port)
        except OSError:
            self.close()
            raise

    async def start(self, shared: SharedConnectionState, authentication: Mapping[str, ListenerAuthentication] = NO_AUTHENTICATION) -> None:
        """Accept connections on all listeners, with the state `shared` of all connections. `authentication` is the security of listeners
        that are not PLAINTEXT, by name. Raises OSError with the name of the listener that fails."""
        self._shared = shared
        for bound, listener in zip(self._bound, self.listeners, strict=True):
            try:
                await bound.accept(_maker(shared, listener, authentication.get(listener.name)), self._backlog)
            except OSError as error:
                raise _cannot_listen(listener, error) from error

    def watch_idle(self, max_idle_ms: int) -> None:
        """From now on, close each connection that is idle for `max_idle_ms` (-1: close none)."""
        shared = self._shared
        assert shared is not None, "call start first"
        if max_idle_ms < 0:
            return
        every = max(1, max_idle_ms // _IDLE_SWEEPS)

        def sweep() -> None:
            now = shared.mono_ms()
            for connection in list(shared.connections):
                if connection.idle and now - connection.last_active_ms >= max_idle_ms:
                    silent_ms = now - connection.last_active_ms
                    peer_logger.info("Closing a connection that was idle for %d ms (connections.max.idle.ms)", silent_ms)
                    connection.abort()
            shared.timers.schedule(now + every, sweep)

        shared.timers.schedule(shared.mono_ms() + every, sweep)

    def close(self) -> None:
        """Stop accepting connections, and reading from the open ones. Requests in flight are answered; then connections are closed."""
        for connection in self._last_connections():
            connection.stop_reading()

    def abort(self) -> None:
        """Close all listeners and connections at once; requests in flight are not answered."""
        for connection in self._last_connections():
            connection.abort()

    async def wait_closed(self, timeout_ms: int) -> None:
        """Wait at most `timeout_ms` until all connections are closed, then abort the remaining ones. Call `close` before."""
        shared = self._shared
        if shared is None:
            return
        if await wait_at_most(shared.timers, shared.clock, timeout_ms, [shared.until_empty()]):
            logger.warning("Closing %d connections that did not read their responses in time", len(shared.connections))
            for connection in list(shared.connections):
                connection.abort()

    def _last_connections(self) -> list[Connection]:
        """Stop accepting connections, and return the connections that are still open."""
        for bound in self._bound:
            bound.close()
        if self._shared is None:
            return []
        self._shared.stopping = True
        return list(self._shared.connections)

    def _bind(self, listener: Listener) -> BoundAddress:
        try:
            return self._network.listen(listener.host or ANYWHERE, listener.port)
        except OSError as error:
            raise _cannot_listen(listener, error) from error


def _cannot_listen(listener: Listener, error: OSError) -> OSError:
    return OSError(error.errno, f"cannot listen on {listener.name}://{listener.host or ANYWHERE}:{listener.port}: {error.strerror}")

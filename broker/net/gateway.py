"""`ottla gateway`: a proxy between clients and an existing cluster. It has one port for any broker, and one for each broker that the
cluster names.

Rules:
- A broker's port is the first port plus one plus its node id, if that port is free. So it stays the same after a restart of the gateway.
  With port 0, the operating system chooses all ports.
- A port stays open while the gateway runs. If its broker cannot be reached, its clients' connections are reset, like connections to
  a closed port.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import NEEDS_A_BROKER
from ottla.broker.gateway.address_book import Address, AddressBook
from ottla.broker.gateway.interception import Interception
from ottla.broker.net.gateway_connection import GatewayConnections
from ottla.broker.net.gateway_tls import alerting
from ottla.broker.net.network import bound_socket, host_and_port
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver

logger = logging.getLogger("ottla.broker")

_PORT_MAX = 65_535
CONNECTIONS_DEFAULT = 2**31 - 1
"""The default maximum number of client connections to a gateway: Kafka's default of max.connections."""
IDLE_DEFAULT_MS = 660_000
"""The default time in ms after which a gateway closes a connection on which no byte moves. It is a minute longer than the default of
connections.max.idle.ms, so that a live broker closes an idle connection first."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """A gateway's settings. `cluster` are addresses of brokers; `advertised_host` is the host name that clients get (by default the address
    to which they connect); the TLS contexts are for the clients' and for the cluster's side; `max_connections` limits the clients'
    connections, as a broker's max.connections does; a connection on which no byte moves for `max_idle_ms` is closed (-1: never).
    """

    cluster: Sequence[Address]
    host: str = "127.0.0.1"
    port: int = 19_092
    advertised_host: str | None = None
    client_tls: ssl.SSLContext | None = field(default=None, repr=False)
    cluster_tls: ssl.SSLContext | None = field(default=None, repr=False)
    max_connections: int = CONNECTIONS_DEFAULT
    max_idle_ms: int = IDLE_DEFAULT_MS


class Gateway:
    """`ottla gateway`: a proxy between Kafka clients and a cluster, on the running event loop. `ottla.broker.process` starts and stops it
    like a broker (`ServingNode`). `faults` are fault rules, errors scripted for a test."""

    def __init__(
        self,
        settings: GatewaySettings,
        faults: Faults | None = None,
        clock: Clock | None = None,
        ready_text: Callable[[str], str] | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self.settings = settings
        self.faults = faults or Faults(refused=NEEDS_A_BROKER)
        self.clock = clock or Clock()
        self.timers = Timers()
        self.book = AddressBook(settings.cluster, self._open_port)
        interception = Interception(self.faults, self.clock, self.timers, self.book.topic_name)
        self.connections = GatewayConnections(
            self.book, interception, settings.cluster_tls, settings.advertised_host, settings.max_connections
        )
        self._driver = TimerDriver(self.timers, self.clock)
        self._servers: list[asyncio.Server] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._bound: list[socket.socket] = []
        self._is_stopping = False
        self._port = settings.port
        self._quiet = quiet
        self._ready_text = ready_text
        """A function that takes the gateway's address and returns lines that are added to the message printed after the start; None adds
        nothing."""

    async def start(self) -> None:
        """Open the gateway's first port, which leads to any broker of the cluster (for bootstrap), and accept clients. Raises OSError if
        the port cannot be opened."""
        host, port = self.settings.host, self.settings.port
        try:
            bound = bound_socket(host, port)
            bound.listen(limits.ACCEPT_BACKLOG)  # uvloop would ignore that another process listens since the port was bound
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {host_and_port(host, port)}: {error.strerror}") from error
        self._port = bound.getsockname()[1]
        self._driver.start()
        self.connections.watch_idle(self.settings.max_idle_ms)
        await self._accept(bound, None)

    async def warm_up(self) -> None:
        """Do nothing: a gateway has nothing to load."""

    async def stop(self) -> None:
        """Close all ports and connections."""
        self._is_stopping = True
        for task in self._opening:
            task.cancel()
        for server in self._servers:
            server.close()
        for bound in self._bound:  # a task that is cancelled before it began has made no server of its socket
            bound.close()
        await self.connections.close()
        self._driver.stop()

    @property
    def ports(self) -> list[int]:
        """The gateway's ports: the first one, which leads to any broker, then those of the known brokers, by node id."""
        return [self._port, *(port for _, port in sorted(self.book.ports.items()))]

    def greeting(self) -> str:
        """Return the message to print after the start. A gateway made with `quiet` prints the message to standard error instead, and
        returns an empty one.
        """
        cluster = ",".join(host_and_port(*address) for address in self.settings.cluster)
        at = host_and_port(self.settings.host, self._port)
        line = f"Ottla's gateway to {cluster} is listening on {at} (brokers get their ports when a client asks for them)"
        text = line if self._ready_text is None else f"{line}\n{self._ready_text(at)}"
        if not self._quiet:
            return text
        print(text, file=sys.stderr)
        return ""

    def _open_port(self, node_id: int) -> int:
        """Open a port for a broker and return its number: the first port plus one plus the node id if that is free, otherwise any. Raises
        OSError if no port can be opened or the gateway stops."""
        if self._is_stopping:
            raise OSError(errno.ECANCELED, "the gateway stops")
        host = self.settings.host
        wanted = self._port + 1 + node_id if self.settings.port else 0
        try:
            bound = bound_socket(host, wanted if wanted <= _PORT_MAX else 0)
        except OSError as error:
            logger.warning("Broker %d gets another port, because %s is not free: %s", node_id, host_and_port(host, wanted), error.strerror)
            bound = bound_socket(host, 0)
        self._bound.append(bound)
        bound.listen(limits.ACCEPT_BACKLOG)  # a client may connect before the task below runs
        task = asyncio.get_running_loop().create_task(self._accept(bound, node_id))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        port: int = bound.getsockname()[1]
        logger.info("Broker %d is at %s", node_id, host_and_port(host, port))
        return port

    async def _accept(self, bound: socket.socket, node_id: int | None) -> None:
        tls = None if self.settings.client_tls is None else alerting(self.settings.client_tls)
        patience_s = None if tls is None else limits.TLS_HANDSHAKE_MS / 1000
        server = await asyncio.get_running_loop().create_server(
            partial(self.connections.make, node_id), sock=bound, backlog=limits.ACCEPT_BACKLOG, ssl=tls, ssl_handshake_timeout=patience_s
        )
        self._servers.append(server)

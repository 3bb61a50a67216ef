"""The network of a simulation. Between any two hosts there is a link in each direction, which can be delayed or blocked, and whose
connections can be broken.

Rules:
- The bytes of a connection arrive in order, or the connection breaks, as with TCP.
- Whatever is sent over a blocked link arrives when the link is unblocked, as TCP retransmits.
- The network continues while a process is paused. When a process dies, its connections are reset. When a host loses power, its connections
  are silent until it is back.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Final

from ottla.broker.net.network import MakeProtocol
from ottla.broker.sim.loop import PROCESS, Process, ProcessState, SimLoop
from ottla.broker.sim.memory_network import Address, MemoryNetwork, MemoryServer, MemoryTransport

USUAL_US: Final = (100, 1_000)
"""The shortest and the longest latency from one host to another, in microseconds, if there is no fault."""


@dataclass
class NetworkLink:
    """The network link from one host to another, in this direction only. `loss` is the probability that a write breaks its connection."""

    latency_us: tuple[int, int] = USUAL_US
    blocked: int = 0
    """The number of active faults that block this link."""
    loss: float = 0.0
    held: list[tuple[ByteStream, Callable[[], None]]] = field(default_factory=list)


class ByteStream:
    """One direction of one connection, which delivers its bytes and its end in order."""

    def __init__(self, network: SimNetwork, link: NetworkLink) -> None:
        self._network, self._link = network, link
        self._arrival_us = 0

    def carry(self, event: Callable[[], None]) -> None:
        """Deliver an event (bytes or the end) to the other end of the connection: when the link is not blocked, and after all events before
        it."""
        if self._link.blocked:
            self._link.held.append((self, event))
            return
        network = self._network
        latency_us = network.random.randint(*self._link.latency_us)
        self._arrival_us = max(self._arrival_us, network.loop.now_us + latency_us)
        network.loop.call_in_us(self._arrival_us - network.loop.now_us, event, context=network.context)

    def loses(self) -> bool:
        return self._link.loss > 0 and self._network.random.random() < self._link.loss


class SimTransport(MemoryTransport):
    """One end of a simulated connection. The callbacks of its protocol run in the context of the simulated process `process`."""

    def __init__(self, protocol: asyncio.Protocol, local: Address, remote: Address, stream: ByteStream, process: Process) -> None:
        super().__init__(protocol, local, remote)
        self.stream, self.process, self.context = stream, process, process.context

    def carry(self, event: Callable[..., None], *args: bytes) -> None:
        if args and self.stream.loses():
            self.cut()
        else:
            self.stream.carry(lambda: event(*args))

    def cut(self) -> None:
        """Break the connection at both ends; bytes that have not arrived yet are lost."""
        self.reset()
        self.other.reset()

    @property
    def other_host(self) -> str:
        """The host at the other end of the connection."""
        assert isinstance(self.other, SimTransport)
        return self.other.process.host


class SimServer(MemoryServer):
    """An address (host and port) on which a simulated process listens."""

    def __init__(self, network: SimNetwork, host: str, port: int, process: Process) -> None:
        super().__init__(network, host, port)
        self.process = process


class SimNetwork(MemoryNetwork):
    """The network of all simulated hosts. A connection attempt starts at the host of the simulated process that makes it
    (`Process.host`)."""

    def __init__(self, loop: SimLoop, random: Random) -> None:
        super().__init__()
        self.loop = loop
        self.random = random
        self.context = Context()
        self.hosts_without_power: set[str] = set()
        """Hosts that have no power now: connection attempts to them get no answer."""
        self._network_links: dict[tuple[str, str], NetworkLink] = {}
        self._ends: dict[SimTransport, None] = {}
        self._silent: dict[str, list[SimTransport]] = {}

    # --- calls of a process --------------------------------------------------------------------------------------------------------

    def listen(self, host: str, port: int) -> MemoryServer:
        if (host, port) in self.servers:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.servers[host, port] = server = SimServer(self, host, port, _me())
        return server

    async def connect(self, host: str, port: int, make: MakeProtocol) -> asyncio.Transport:
        return await _Dialling(self, _me(), (host, port), make).made

    # --- faults ----------------------------------------------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> NetworkLink:
        """Return the link from the host `source` to the host `target`; the other direction is another link."""
        return self._network_links.setdefault((source, target), NetworkLink())

    def block(self, source: str, target: str) -> None:
        """Block the link from the host `source` to the host `target`. The other direction stays open."""
        self.link(source, target).blocked += 1

    def unblock(self, source: str, target: str) -> None:
        """End one blocking of the link from the host `source` to the host `target`. If no other fault blocks the link, deliver what was
        held back."""
        link = self.link(source, target)
        link.blocked -= 1
        if not link.blocked:
            held, link.held = link.held, []
            for stream, event in held:
                stream.carry(event)

    def heal(self) -> None:
        """Restore all links between hosts: unblock them, and remove delays and losses."""
        for way, link in self._network_links.items():
            link.latency_us, link.loss = USUAL_US, 0.0
            if link.blocked:
                link.blocked = 1
                self.unblock(*way)

    def cut(self, one: str, other: str) -> int:
        """Break all connections between the hosts `one` and `other`; return the number of connections."""
        found = [end for end in self.open_ends() if (end.process.host, end.other_host) == (one, other)]
        for end in found:
            end.cut()
        return len(found)

    def process_died(self, process: Process, *, power: bool) -> None:
        """Close the listeners and connections of a dead process. The other ends are reset, as the operating system does; after a power loss
        (`power`) they are not notified."""
        for address in [address for address, server in self.servers.items() if isinstance(server, SimServer) and server.process is process]:
            del self.servers[address]
        ends = [end for end in self.open_ends() if end.process is process]
        for end in ends:
            end.lose(None)
        if power:
            self.hosts_without_power.add(process.host)
            self._silent.setdefault(process.host, []).extend(ends)
        else:
            for end in ends:
                end.stream.carry(end.other.reset)

    def power_restored(self, host: str) -> None:
        """The host has power again: reset the connections that it had before the power loss. Their other ends are notified only now."""
        self.hosts_without_power.discard(host)
        for end in self._silent.pop(host, []):
            end.stream.carry(end.other.reset)

    def open_ends(self) -> Iterator[SimTransport]:
        """Yield both ends of all open connections."""
        self._ends = {end: None for end in self._ends if not end.is_closing()}
        yield from list(self._ends)

    def opened(self, *ends: SimTransport) -> None:
        """Register the ends of a new connection."""
        self._ends.update(dict.fromkeys(ends))
        if len(self._ends) > 256:
            self._ends = {end: None for end in self._ends if not end.is_closing()}


class _Dialling:
    """A connection attempt from a simulated process to an address. It may fail at each step."""

    def __init__(self, network: SimNetwork, process: Process, address: Address, make: MakeProtocol) -> None:
        self._network, self._process, self._address, self._make = network, process, address, make
        self.made: asyncio.Future[asyncio.Transport] = network.loop.create_future()
        host = address[0]
        self._out = ByteStream(network, network.link(process.host, host))
        self._back = ByteStream(network, network.link(host, process.host))
        self._out.carry(self._arrived)

    def _arrived(self) -> None:
        network, (host, _) = self._network, self._address
        if host in network.hosts_without_power:
            return
        server = network.servers.get(self._address)
        if server is None or server.make is None:
            self._back.carry(self._refused)
            return
        assert isinstance(server, SimServer)
        client = (self._process.host, network.any_port())
        there = SimTransport(server.process.context.run(server.make), self._address, client, self._back, server.process)
        here = SimTransport(asyncio.Protocol(), client, self._address, self._out, self._process)
        here.other, there.other = there, here
        network.opened(here, there)
        network.loop.call_soon(there.protocol.connection_made, there, context=there.context)
        self._back.carry(lambda: self._accepted(here))

    def _accepted(self, here: SimTransport) -> None:
        self._network.loop.call_soon(self._connected, here, context=here.context)

    def _connected(self, here: SimTransport) -> None:
        if self.made.done() or here.is_closing():
            here.abort()
            self._refused()
            return
        here.protocol = self._make()
        here.protocol.connection_made(here)
        self.made.set_result(here)

    def _refused(self) -> None:
        if not self.made.done() and self._process.state is not ProcessState.DEAD:
            self.made.set_exception(ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)))


def _me() -> Process:
    process = PROCESS.get()
    assert process is not None, "the network is used outside of a process"
    return process

"""A broker whose clients reach it directly, or through a gateway that has the fault rules, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ottla.broker.core.clock import MovableClock
from ottla.broker.faults.engine import Exchange
from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.protocol.client import Client
from tests.support.running_broker import HOST, RunningBroker


class FaultyBroker(RunningBroker):
    """A broker in this process that applies fault rules itself."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, clock=MovableClock())

    @property
    def client_port(self) -> int:
        """The port that clients connect to."""
        return self.port

    def observe(self, observer: Callable[[Exchange], object]) -> None:
        self.call(lambda _: self.script.observe(observer))

    def wait_for_clients(self, count: int) -> None:
        """Wait until `count` clients are connected."""
        self.call_until(lambda running: running.connection_count == count)

    def wait_until_buffered(self) -> None:
        """Wait until the broker or gateway has buffered a client's request behind an earlier one."""
        self.call_until(lambda running: running.buffered_bytes > 0)


class GatewayBeforeBroker(FaultyBroker):
    """A broker without fault rules behind a gateway that applies them. Clients, faults, clock and observers are the gateway's."""

    def start(self) -> GatewayBeforeBroker:
        super().start()
        self.gateway = InProcessGateway(self.bootstrap).start()
        self.faults, self.clock, self.script = self.gateway.faults, self.gateway.clock, self.gateway.script
        return self

    def stop(self) -> None:
        self.gateway.stop()
        super().stop()

    @property
    def client_port(self) -> int:
        return self.gateway.node.ports[0]

    def client(self, client_id: str | None = "test", *, port: int | None = None) -> Client:
        return Client(HOST, port or self.client_port, client_id=client_id)

    def observe(self, observer: Callable[[Exchange], object]) -> None:
        self.gateway.call(lambda _: self.script.observe(observer))

    def wait_for_clients(self, count: int) -> None:
        self.gateway.call_until(lambda node: node.connections.clients == count)

    def wait_until_buffered(self) -> None:
        self.gateway.call_until(lambda node: node.connections.budget.used > 0)

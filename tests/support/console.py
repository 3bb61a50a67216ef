"""A broker or a gateway in this process with its console, and access to the console's JSON API."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from ottla.broker.admin.server import admin_port, gateway_admin_port
from ottla.broker.core.clock import MovableClock
from ottla.broker.testing import InProcessBroker
from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.protocol.client import Client

TOKEN = "a-token"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}
HOST = "127.0.0.1"


class AnyConsole:
    """Access to the console of a broker or a gateway."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def url(self) -> str:
        """The URL of the console's page."""
        return f"http://{HOST}:{self.port}/console"

    def answer(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send an HTTP request to the console; return status, headers by lower-case name, and body."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=20)
        connection.request(
            method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
        )
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content

    def read(self, what: str, **query: Any) -> Any:
        """Return the JSON at `/console/<what>`, which must exist."""
        status, _, content = self.answer("GET", f"/console/{what}" + (f"?{urlencode(query)}" if query else ""), headers=SHOWN)
        assert status == 200, content
        return json.loads(content)


class Console(AnyConsole):
    """Access to the console of a broker."""

    def __init__(self, broker: InProcessBroker, port: int) -> None:
        super().__init__(port)
        self.broker = broker

    def client(self, client_id: str = "test") -> Client:
        """Open a connection to the broker with the project's own blocking client."""
        return Client(HOST, self.broker.port, client_id=client_id)


@contextmanager
def served(broker: InProcessBroker, clock: MovableClock, *, open_local: bool = True) -> Iterator[Console]:
    """Serve the console of a running broker; without `open_local`, reading needs the token."""
    serving = admin_port(broker.broker, broker.script, clock, 0, token=TOKEN, console=True, open_local=open_local)
    try:
        yield Console(broker, broker.call_async(serving.__aenter__()))
    finally:
        broker.call_async(serving.__aexit__(None, None, None))


@contextmanager
def served_gateway(gateway: InProcessGateway) -> Iterator[AnyConsole]:
    """Serve the console of a running gateway, with its own clock; reads from this machine need no token, except of the wire log."""
    serving = gateway_admin_port(gateway.node, MovableClock(), 0, HOST, token=TOKEN, console=True, open_local=True)
    try:
        yield AnyConsole(gateway.call_async(serving.__aenter__()))
    finally:
        gateway.call_async(serving.__aexit__(None, None, None))


@contextmanager
def running_console() -> Iterator[Console]:
    """Run a broker with its console, and yield access to the console."""
    clock = MovableClock()
    with InProcessBroker(clock=clock) as broker, served(broker, clock) as found:
        yield found

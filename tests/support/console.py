"""A broker in this process with its console, and what its JSON says."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from ottla.broker.admin.server import admin_port
from ottla.broker.core.clock import MovableClock
from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client

TOKEN = "a-token"
HOST = "127.0.0.1"


class Console:
    """One broker's console."""

    def __init__(self, broker: InProcessBroker, port: int) -> None:
        self.broker, self.port = broker, port

    @property
    def url(self) -> str:
        """Of the page."""
        return f"http://{HOST}:{self.port}/console"

    def client(self, client_id: str = "test") -> Client:
        """A connection of the project's own blocking client to the broker."""
        return Client(HOST, self.broker.port, client_id=client_id)

    def answer(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers by their names in lower case, and body."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=20)
        connection.request(
            method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
        )
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content

    def read(self, what: str, **query: Any) -> Any:
        """The JSON at `/console/<what>`, which must be there."""
        status, _, content = self.answer("GET", f"/console/{what}" + (f"?{urlencode(query)}" if query else ""))
        assert status == 200, content
        return json.loads(content)


@contextmanager
def served(broker: InProcessBroker, clock: MovableClock, *, open_local: bool = True) -> Iterator[Console]:
    """The console of a broker that runs; reading needs the token without `open_local`."""
    serving = admin_port(broker.broker, broker.script, clock, 0, token=TOKEN, console=True, open_local=open_local)
    try:
        yield Console(broker, broker.call_async(serving.__aenter__()))
    finally:
        broker.call_async(serving.__aexit__(None, None, None))


@contextmanager
def console() -> Iterator[Console]:
    """A broker of its own with its console."""
    clock = MovableClock()
    with InProcessBroker(clock=clock) as broker, served(broker, clock) as found:
        yield found

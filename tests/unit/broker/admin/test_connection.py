"""Clients of the admin port that send no request, send one slowly, or do not read the response."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import psutil
import pytest
import uvicorn
from uvicorn.server import ServerState

from ottla.broker.admin.connection import BoundedConnection
from ottla.broker.core import limits
from tests.support.console import HOST, TOKEN, Console, running_console

TIMEOUT_S = 20
POST = f"POST /clock/advance HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n"
GET = f"GET /console HTTP/1.1\r\nhost: {HOST}\r\n\r\n"
OWED = {
    "a request": "",
    "the rest of its headers": POST,
    "the rest of its body": f'{POST}content-length: 9\r\n\r\n{{"ms"',
    "the rest of a body that nobody waits for": f"POST /faults HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 9\r\n\r\n{{",
}


@pytest.fixture(scope="module")
def admin() -> Iterator[Console]:
    with running_console() as found:
        yield found


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ADMIN_PATIENCE_MS", 100)


def connected(admin: Console) -> socket.socket:
    return socket.create_connection((HOST, admin.port), timeout=TIMEOUT_S)


def read_to_its_end(connection: socket.socket) -> bytes:
    """Read until the peer closes or resets the connection. Raises TimeoutError if it stays open."""
    found = b""
    try:
        while chunk := connection.recv(1 << 16):
            found += chunk
    except ConnectionResetError:
        pass
    return found


def closed_by_peer(connection: socket.socket) -> bool:
    """Return whether the peer closes the connection before the connection's timeout; it may send nothing first."""
    try:
        return not connection.recv(1)
    except TimeoutError:
        return False


def held(admin: Console) -> int:
    """Return the number of open connections at the admin port."""
    mine = psutil.Process().net_connections("tcp")
    return sum(1 for each in mine if each.laddr.port == admin.port and each.status != psutil.CONN_LISTEN)


def wait_until_held(admin: Console, count: int) -> None:
    until = time.monotonic() + TIMEOUT_S
    while held(admin) != count and time.monotonic() < until:
        os.sched_yield()
    assert held(admin) == count


@pytest.mark.parametrize("owed", OWED)
def test_connection_that_sends_no_complete_request_in_time_is_closed(admin: Console, owed: str) -> None:
    with connected(admin) as connection:
        connection.sendall(OWED[owed].encode())
        assert read_to_its_end(connection).startswith(b"HTTP/1.1 401" if "nobody" in owed else b"")


def test_time_limit_also_applies_to_the_next_request(admin: Console) -> None:
    with connected(admin) as connection:
        connection.sendall(GET.encode())
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.sendall(GET[:9].encode())
        read_to_its_end(connection)


def test_slowly_sent_bytes_do_not_extend_the_time_limit(admin: Console) -> None:
    until = time.monotonic() + TIMEOUT_S
    with connected(admin) as connection, suppress(ConnectionError):
        connection.sendall(POST.encode() + b"x: ")
        connection.settimeout(0.01)
        while not closed_by_peer(connection) and time.monotonic() < until:
            connection.sendall(b"x")
    assert time.monotonic() < until


def test_connection_that_does_not_read_its_response_is_closed(admin: Console) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((HOST, admin.port))
        connection.sendall(GET.replace("/console", "/openapi.json").encode() * 100)  # whose answers are more than all buffers hold
        assert connection.recv(12) == b"HTTP/1.1 200"
        wait_until_held(admin, 0)


@asynccontextmanager
async def serving(app: Callable[[Any, Any, Any], Awaitable[None]]) -> AsyncIterator[tuple[asyncio.Event, tuple[str, int]]]:
    """Serve an ASGI application over BoundedConnection with small buffers; yield an event that is set when a connection is lost, and the
    address."""
    config, state, lost = uvicorn.Config(app, lifespan="off"), ServerState(), asyncio.Event()
    config.load()

    class Connection(BoundedConnection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    listening = socket.create_server((HOST, 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(config, state, {}), sock=listening)
    yield lost, listening.getsockname()
    server.close()


def test_connection_that_waits_for_a_response_is_not_closed() -> None:
    async def run() -> bytes:
        requested, go = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            requested.set()
            await go.wait()
            await send({"type": "http.response.start", "status": 204})
            await send({"type": "http.response.body"})

        async with serving(app) as (_, at):
            reader, writer = await asyncio.open_connection(*at)
            writer.write(GET.encode())
            await requested.wait()
            idle, to_idle = await asyncio.open_connection(*at)
            assert await idle.read() == b""  # it came later, and its time is over
            go.set()
            answer = await reader.read(12)
            writer.close()
            to_idle.close()
            return answer

    assert asyncio.run(asyncio.wait_for(run(), TIMEOUT_S)) == b"HTTP/1.1 204"


def test_connection_that_does_not_read_the_end_of_the_last_response_is_closed() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": bytes(50_000)})  # more than fits into the sockets, less than pauses writing

    async def run() -> None:
        async with serving(app) as (lost, at):
            with socket.socket() as silent:
                silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                silent.connect(at)
                silent.sendall(GET.encode())
                await lost.wait()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


def test_connection_above_the_limit_gets_503_and_is_closed(admin: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ADMIN_PATIENCE_MS", 60_000)
    monkeypatch.setattr(limits, "ADMIN_CONNECTIONS", 2)
    wait_until_held(admin, 0)
    with connected(admin), connected(admin):
        status, _, body = admin.answer("GET", "/health")
        assert (status, body) == (503, b"too many connections to the admin port\n")
        wait_until_held(admin, 2)
    wait_until_held(admin, 0)
    assert admin.answer("GET", "/health")[0] == 200

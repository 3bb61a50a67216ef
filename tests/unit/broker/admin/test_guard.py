from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.admin.guard import Guard, Receive, Scope, Send

TOKEN = "a-token"


async def behind(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "behind"})


def first_message(
    client: str | None, headers: dict[bytes, bytes], method: str = "GET", kind: str = "http", **options: Any
) -> dict[str, Any]:
    """Return the first message of the guard's response to a request from the address `client`. `options` are the guard's; by default reads
    from this machine are allowed without a token."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        raise AssertionError("nothing of a body is read before it is known who sends it")

    peer = None if client is None else (client, 1)
    scope = {"type": kind, "method": method, "path": "/faults", "headers": list(headers.items()), "client": peer}
    asyncio.run(Guard(behind, TOKEN, **{"open_local": True, **options})(scope, receive, send))
    first: dict[str, Any] = sent[0]
    return first


@pytest.mark.parametrize("client", ["10.0.0.9", "192.168.1.1", "::ffff:10.0.0.9", "fe80::1", "a socket", None])
def test_remote_hosts_need_the_token_whatever_host_header_they_send(client: str | None) -> None:
    assert first_message(client, {b"host": b"127.0.0.1"})["status"] == 401
    assert first_message(client, {b"host": b"127.0.0.1", b"authorization": b"Bearer a-token"})["type"] == "behind"


@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_local_reads_need_no_token_if_the_port_is_open_locally(client: str) -> None:
    assert first_message(client, {b"host": b"localhost:1"})["type"] == "behind"
    assert first_message(client, {b"host": b"localhost:1"}, "POST")["status"] == 401
    assert first_message(client, {b"host": b"localhost:1"}, open_local=False)["status"] == 401
    assert first_message(client, {b"host": b"localhost:1"}, closed_paths={"/faults"})["status"] == 401
    assert (
        first_message(client, {b"host": b"localhost:1", b"authorization": b"Bearer a-token"}, closed_paths={"/faults"})["type"] == "behind"
    )


@pytest.mark.parametrize("site", [b"cross-site", b"same-site"])
def test_cross_site_requests_of_a_browser_are_rejected_even_without_reading_the_response(site: bytes) -> None:
    def status_of(**fetch: bytes) -> Any:
        browser_headers = {b"host": b"localhost:1"} | {f"sec-fetch-{name}".encode(): value for name, value in fetch.items()}
        return first_message("127.0.0.1", browser_headers).get("status", "behind")

    assert status_of(site=site, mode=b"no-cors", dest=b"script") == 401
    assert status_of(site=site, mode=b"cors", dest=b"empty") == 401
    assert status_of(site=site, mode=b"navigate", dest=b"iframe") == 401
    assert status_of(site=site, mode=b"navigate", dest=b"document") == "behind"
    assert status_of(site=b"same-origin", mode=b"cors", dest=b"empty") == "behind"
    assert status_of(site=b"none", mode=b"navigate", dest=b"document") == "behind"


def test_websocket_needs_the_token() -> None:
    assert first_message("127.0.0.1", {b"host": b"localhost"}, kind="websocket")["type"] == "websocket.close"
    shown = {b"host": b"localhost", b"authorization": b"bearer a-token"}
    assert first_message("127.0.0.1", shown, kind="websocket")["type"] == "behind"


def test_a_host_header_of_many_colons_is_rejected_in_linear_time() -> None:
    assert first_message("127.0.0.1", {b"host": b"[" + b":" * 1_000_000})["status"] == 401  # it took hours

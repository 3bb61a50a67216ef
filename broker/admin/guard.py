"""Who may ask what of the admin port: in front of everything that it serves, so that nothing can be added behind its back.

Rules: with the token everything may be asked. Without it only what reads, only from this machine, and only under one of its own names: a
page of another site that had its name lead to 127.0.0.1 (DNS rebinding) still says the name of that site. Nor may such a page ask under
this machine's own name: it cannot read the answer, but whether there was one tells it which topics and groups there are; browsers say who
asks (Fetch Metadata), and links may still be followed. The console's page is for everybody: its files are the same for every broker, and
what they ask for comes this way.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, Final

from ottla.broker.admin.tokens import is_loopback

_READING: Final = frozenset({"GET", "HEAD"})
_BEARER: Final = b"bearer "
_OWN_PAGES: Final = frozenset({b"same-origin", b"none"})
"""Fetch Metadata's words for this port's own page, and for whoever types an address. `same-site` is another port of this machine."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """An ASGI application in front of another one."""

    def __init__(self, app: App, token: str, open_paths: Collection[str] = ()) -> None:
        """`open_paths` may be read by everybody: no other path is, however it begins."""
        self._app, self._token, self._open_paths = app, token.encode(), open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = self._refusal(scope)
        if reason is None:
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": reason})
            return
        headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps({"detail": reason}).encode()})

    def _refusal(self, scope: Scope) -> str | None:
        """Why it is not answered; None where it is."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"authorization")
        if given is not None:
            shown = given[len(_BEARER) :].strip() if given[: len(_BEARER)].lower() == _BEARER else b""
            return None if hmac.compare_digest(shown, self._token) else "this is not the admin port's token"
        reads = scope["type"] == "http" and scope["method"] in _READING
        if reads and (scope.get("path") in self._open_paths or (_is_from_here(scope, headers) and not _is_of_another_page(headers))):
            return None
        return "this asks for the admin port's token, as `Authorization: Bearer …`; `ottla serve` prints it"


def _is_from_here(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """From this machine, under one of its own names."""
    return is_loopback((scope.get("client") or ("",))[0]) and is_loopback(_without_port(headers.get(b"host", b"").decode("latin-1")))


def _is_of_another_page(headers: dict[bytes, bytes]) -> bool:
    """Whether a browser asks for what a page from elsewhere has in it."""
    asker, mode = headers.get(b"sec-fetch-site", b"none"), headers.get(b"sec-fetch-mode")
    return asker not in _OWN_PAGES and (mode != b"navigate" or headers.get(b"sec-fetch-dest") != b"document")


def _without_port(host: str) -> str:
    """The Host header's host: `127.0.0.1:9644`, `[::1]:9644`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]

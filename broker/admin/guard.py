"""Authorization of the admin port, in front of everything that it serves.

Rules:
- With the token, every request is answered. Without it, only `GET /health` is, from this machine, and the files of the console's page,
  which are the same for every broker.
- With `--admin-open-local`, requests from this machine that only read need no token either. A reverse proxy on this machine passes for it:
  its connections come from 127.0.0.1, and nginx also names the proxied address in the Host header. So this is never the default. Records
  ask for the token all the same where an authorizer decides who may read them.
- A request from this machine has a loopback address and a Host header with a loopback name. A page of another site whose name leads to
  127.0.0.1 (DNS rebinding) has that site's name in the Host header. A page of another site that asks under a loopback name cannot read the
  response, but learns whether there was one; browsers tell by Fetch Metadata who asks. Links may be followed.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, Final

from ottla.broker.admin.tokens import is_loopback

_READING: Final = frozenset({"GET", "HEAD"})
_BEARER: Final = b"bearer "
_HOST: Final = re.compile(r"(?:(?P<name>[^\[\]:]*)|\[(?P<ipv6>[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)\])(?::[0-9]*)?")
HEALTH: Final = "/health"
_OWN_PAGES: Final = frozenset({b"same-origin", b"none"})
"""Fetch Metadata's words for this port's own page, and for whoever types an address. `same-site` is another port of this machine."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """An ASGI application in front of another one."""

    def __init__(
        self, app: App, token: str, open_paths: Collection[str] = (), *, open_local: bool = False, closed_paths: Collection[str] = ()
    ) -> None:
        """`open_paths` may be read by everybody, exactly these. With `open_local`, all but `closed_paths` may be read from this machine."""
        self._app, self._token, self._open_paths = app, token.encode(), open_paths
        self._open_local, self._closed_paths = open_local, closed_paths

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
        path = scope.get("path")
        if scope["type"] == "http" and scope["method"] in _READING:
            is_local = path == HEALTH or (self._open_local and path not in self._closed_paths)
            if path in self._open_paths or (is_local and _is_from_here(scope, headers) and not _is_of_another_page(headers)):
                return None
        return "the admin port needs its token, as `Authorization: Bearer …`; `ottla serve` prints it"


def _is_from_here(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """From this machine, under one of its own names."""
    return is_loopback((scope.get("client") or ("",))[0]) and is_loopback(_without_port(headers.get(b"host", b"").decode("latin-1")))


def _is_of_another_page(headers: dict[bytes, bytes]) -> bool:
    """Whether a browser asks for what a page from elsewhere has in it."""
    asker, mode = headers.get(b"sec-fetch-site", b"none"), headers.get(b"sec-fetch-mode")
    return asker not in _OWN_PAGES and (mode != b"navigate" or headers.get(b"sec-fetch-dest") != b"document")


def _without_port(host: str) -> str:
    """The Host header's host: `127.0.0.1:9644`, `[::1]:9644`; the header itself where it is neither."""
    found = _HOST.fullmatch(host)
    return host if found is None else found["ipv6"] or found["name"]

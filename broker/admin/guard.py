"""Authorization of the admin port, in front of all its routes.

Rules:
- With the token, every request is answered. Without it, only two kinds of requests are: `GET /health` from this machine, and requests for
  the files of the console's page, which are the same for every broker.
- With `--admin-open-local`, read-only requests from this machine need no token either. This is never the default: requests through a
  reverse proxy on this machine look local, as they come from 127.0.0.1, and nginx by default sets the Host header to the proxied address.
  If the broker has an authorizer, reading records and the wire log needs the token even then.
- A request counts as local if its peer address is a loopback address and its Host header a loopback name. This stops DNS rebinding: a page
  of another site whose name resolves to 127.0.0.1 sends that site's name as Host. A page of another site that requests a loopback name
  cannot read the response, but could learn whether there is one; such requests are recognised by their Fetch Metadata headers and
  rejected. A user may still follow a link from another site's page.
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
_HOST: Final = re.compile(r"(?:(?P<name>[^\[\]:]*)|\[(?P<ipv6>[0-9a-fA-F.]*:[0-9a-fA-F:.]*)\])(?::[0-9]*)?")
HEALTH: Final = "/health"
_OWN_PAGES: Final = frozenset({b"same-origin", b"none"})
"""The values of the header Sec-Fetch-Site in requests of this port's own page and of an address that the user typed. `same-site` is not
among them, because it also stands for pages of other ports of this machine."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """An ASGI middleware that checks the token before it calls the application."""

    def __init__(
        self, app: App, token: str, open_paths: Collection[str] = (), *, open_local: bool = False, closed_paths: Collection[str] = ()
    ) -> None:
        """`open_paths` need no token at all. With `open_local`, read-only requests from this machine need no token either, except for the
        paths in `closed_paths`."""
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
        """Return why the request is rejected, as a text for the client, or None if it is allowed."""
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
        return "the admin port needs its token, as `Authorization: Bearer …`; `ottla serve` and `ottla gateway` print it"


def _is_from_here(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Return whether the request's peer address is a loopback address, and its Host header a loopback name."""
    return is_loopback((scope.get("client") or ("",))[0]) and is_loopback(_without_port(headers.get(b"host", b"").decode("latin-1")))


def _is_of_another_page(headers: dict[bytes, bytes]) -> bool:
    """Return whether a browser sends the request on behalf of another site's page."""
    site, mode = headers.get(b"sec-fetch-site", b"none"), headers.get(b"sec-fetch-mode")
    return site not in _OWN_PAGES and (mode != b"navigate" or headers.get(b"sec-fetch-dest") != b"document")


def _without_port(host: str) -> str:
    """Return the host of a Host header (`127.0.0.1:9644`, `[::1]:9644`), or the header itself if it has another form."""
    found = _HOST.fullmatch(host)
    return host if found is None else found["ipv6"] or found["name"]

"""Serves the console's page: plain HTML, CSS and JavaScript files of this package.

Rules:
- The files are served without the token, because they contain nothing about the broker. The page reads its data from the API, which the
  guard protects.
- One file is not in the package: `views.js` names the views that the API serves, which are those of a broker or of a gateway.
- A Content-Security-Policy allows the page to load only these files and to connect only to this port.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Final, Literal

from fastapi import FastAPI
from fastapi.responses import RedirectResponse, Response

PAGE: Final = "/console"
"""The URL path of the console's page."""
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def parts() -> dict[str, tuple[str, bytes]]:
    """Return media type and content of each of the page's files, by URL path."""
    found = {}
    for each in sorted(files(__package__).joinpath("page-files").iterdir(), key=lambda file: file.name):
        kind = _TYPES.get(each.name[each.name.rfind(".") :])
        if kind is not None:
            path = PAGE if each.name == "index.html" else f"{PAGE}/{each.name}"
            found[path] = f"{kind}; charset=utf-8", each.read_bytes()
    return found


def add_page(api: FastAPI, node: Literal["broker", "gateway"], views: Sequence[str]) -> frozenset[str]:
    """Serve the page of a broker or a gateway with these views. Return its paths, for which the admin port's guard requires no token."""
    script = f'export const node = "{node}";\nexport const views = {json.dumps(views)};\n'
    served = {**parts(), f"{PAGE}/views.js": (f"{_TYPES['.js']}; charset=utf-8", script.encode())}

    def answer(path: str) -> Response:
        media_type, content = served[path]
        return Response(content, media_type=media_type, headers=_HEADERS)

    for path in served:
        api.add_api_route(path, lambda path=path: answer(path), include_in_schema=False)

    async def to_page() -> Response:
        return RedirectResponse(PAGE.removeprefix("/"), headers=_HEADERS)

    api.add_api_route("/", to_page, include_in_schema=False)
    return frozenset({"/", *served})

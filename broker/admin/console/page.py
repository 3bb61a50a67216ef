"""The page itself: plain HTML, CSS and JavaScript out of this package, as they are.

Rules: it is served to whoever asks, with or without the token, as there is nothing of the broker in it; what it shows it asks for, and the
guard says to whom that is told. It may load nothing but these files and speak to nobody but this port (Content-Security-Policy).
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from fastapi import FastAPI
from fastapi.responses import RedirectResponse, Response

PAGE: Final = "/console"
"""Where it is."""
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
    """The files of the page by the paths that they are served at: media type and content."""
    found = {}
    for each in sorted(files(__package__).joinpath("page-files").iterdir(), key=lambda file: file.name):
        kind = _TYPES.get(each.name[each.name.rfind(".") :])
        if kind is not None:
            path = PAGE if each.name == "index.html" else f"{PAGE}/{each.name}"
            found[path] = f"{kind}; charset=utf-8", each.read_bytes()
    return found


def add_page(api: FastAPI) -> frozenset[str]:
    """Serve it; the paths, for the guard to let everybody in."""
    served = parts()

    def answer(path: str) -> Response:
        media_type, content = served[path]
        return Response(content, media_type=media_type, headers=_HEADERS)

    for path in served:
        api.add_api_route(path, lambda path=path: answer(path), include_in_schema=False)

    async def to_page() -> Response:
        return RedirectResponse(PAGE.removeprefix("/"), headers=_HEADERS)

    api.add_api_route("/", to_page, include_in_schema=False)
    return frozenset({"/", *served})

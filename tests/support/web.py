"""Reads a page over HTTP."""

from __future__ import annotations

import http.client


def get_text(port: int, path: str) -> str:
    """Return the text of a page of a server on this machine. Raises AssertionError if the answer's status is not 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    assert answer.status == 200, text
    return text

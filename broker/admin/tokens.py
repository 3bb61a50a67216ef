"""The admin port's token: generated at start, required for changes, and stored where only this user can read it.

Rules:
- A generated token is stored in a file with mode 0600 while the port is served, so that `ottla faults` of the same user finds it. A token
  that the user chose is not stored.
- This module imports nothing else of this package, because `ottla serve` and the tools import it at start.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final

TOKEN_ENV: Final = "OTTLA_ADMIN_TOKEN"
_BYTES: Final = 32


def new_token() -> str:
    """Return a random token of 256 bits."""
    return secrets.token_urlsafe(_BYTES)


@contextmanager
def kept(token: str, port: int) -> Iterator[None]:
    """Store the token for this user's tools while the context lasts. If the machine has no writable home directory, it is not stored."""
    file = _file(port)
    with suppress(OSError, RuntimeError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.touch(0o600, exist_ok=False)
        file.write_text(token)
    try:
        yield
    finally:
        with suppress(OSError, RuntimeError):
            if file.read_text() == token:  # else another broker serves there by now
                file.unlink()


def found(host: str, port: int) -> str | None:
    """Return the token for an address: from the environment, or of this user's broker on this machine; None if there is none."""
    if given := os.environ.get(TOKEN_ENV):
        return given
    if not is_loopback(host):
        return None
    with suppress(OSError, RuntimeError):
        return _file(port).read_text()
    return None


def is_loopback(host: str) -> bool:
    """Return whether `host` is this machine: a loopback address, or `localhost`, the only name that DNS cannot map to another host."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _file(port: int) -> Path:
    directory = os.environ.get("XDG_RUNTIME_DIR")
    return (Path(directory) if directory else Path.home() / ".cache") / "ottla" / f"admin-{port}.token"

"""The admin port's token: made at the start, shown by whoever changes something, and kept where only this user finds it.

Rules: a token that was made here stands in a file of this user's alone (0600) while its port is served, so that `ottla faults` of the same
user needs nothing more; one that was given is its giver's to keep. Light: `ottla serve` and the tools import it, and nothing else of this
package.
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
    """256 bits that nobody guesses."""
    return secrets.token_urlsafe(_BYTES)


@contextmanager
def kept(token: str, port: int) -> Iterator[None]:
    """Where this user's own tools find it, while the context lasts. A machine without a home for it goes without."""
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
    """The token to show at this address: the environment's, or that of a broker of this user's on this machine."""
    if given := os.environ.get(TOKEN_ENV):
        return given
    if not is_loopback(host):
        return None
    with suppress(OSError, RuntimeError):
        return _file(port).read_text()
    return None


def is_loopback(host: str) -> bool:
    """Whether it is this machine, by its address or by the one name that no server of names can turn elsewhere."""
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

"""The admin port's token: chosen by the user or generated at start, required for changes, and stored where only this user can read it.

Rules:
- While the port is served, its token is in a file with mode 0600, so that `ottla faults` of the same user finds it. This includes a token
  that the user chose.
- The process locks the file before it writes to it. A file that has content but no lock therefore belongs to a killed process, and the
  next start of a broker removes it. Windows has no such lock; there the file stays.
- This module imports nothing else of this package, because `ottla serve` and the tools import it at start.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final

TOKEN_ENV: Final = "OTTLA_ADMIN_TOKEN"
_BYTES: Final = 32


def new_token() -> str:
    """Return a new random token of 256 bits, as text."""
    return secrets.token_urlsafe(_BYTES)


@contextmanager
def stored_token(token: str, port: int) -> Iterator[None]:
    """Store the token of the admin port `port` in a file while the context lasts, so that commands of the same user find it. Do nothing if
    the user has no writable home directory."""
    with ExitStack() as stack:
        with suppress(OSError, RuntimeError):
            file = _file(port)
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_left(file.parent)
            file.unlink(missing_ok=True)
            fd = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            stack.callback(_remove_own, file, token)
            stack.callback(os.close, fd)
            with suppress(OSError):  # a file system without locks, where `_remove_left` cannot lock either, and so removes nothing
                _lock(fd, wait=True)
            os.write(fd, token.encode())
        yield


def find_token(host: str, port: int) -> str | None:
    """Return the token for an admin port: that of the environment (TOKEN_ENV), or the one that this user's broker on this machine has
    stored; None if there is none.
    """
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


def _remove_left(directory: Path) -> None:
    """Remove the token files of killed processes from the directory."""
    for file in directory.glob("admin-*.token"):
        with suppress(OSError), file.open("rb") as opened:
            _lock(opened.fileno(), wait=False)  # raises BlockingIOError if the file's process is running
            found = os.fstat(opened.fileno())
            if found.st_size and os.path.samestat(found, file.stat()):  # else a process that starts now has just made or replaced it
                file.unlink()


def _remove_own(file: Path, token: str) -> None:
    with suppress(OSError):
        if file.read_text() == token:  # else another broker serves there by now
            file.unlink()


def _file(port: int) -> Path:
    directory = os.environ.get("XDG_RUNTIME_DIR")
    return (Path(directory) if directory else Path.home() / ".cache") / "ottla" / f"admin-{port}.token"


if sys.platform == "win32":

    def _lock(fd: int, *, wait: bool) -> None:
        if not wait:
            raise BlockingIOError

else:
    import fcntl

    def _lock(fd: int, *, wait: bool) -> None:
        """Lock a file until it is closed. Raises OSError; without `wait`, BlockingIOError if another process has the lock."""
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))

"""Free TCP ports that stay free while a broker is down.

Rules: a port is chosen below the kernel's ephemeral range. A client that repeatedly connects to a dead broker's ephemeral port on its own
host could get that very port as its source, connect to itself, and so prevent the broker from binding it again. A port is claimed until
this process ends, so that no other process that asks here gets it while the broker is down.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST_PORT = 20_000
LAST_PORT = 32_000
ATTEMPTS_MAX = 200
CLAIMS = Path(tempfile.gettempdir()) / f"ottla-ports-{os.getuid()}"
_claimed: list[int] = []
"""Open files that this process has locked, one for each claimed port. The locks last until the process ends."""


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nothing listens on and no other process claims. Raises OSError if none is found in `ATTEMPTS_MAX` attempts."""
    CLAIMS.mkdir(exist_ok=True)
    for port in random.sample(range(FIRST_PORT, LAST_PORT), ATTEMPTS_MAX):
        claim = os.open(CLAIMS / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        if _is_free(host, port) and _is_locked(claim):
            _claimed.append(claim)
            return port
        os.close(claim)
    raise OSError(f"no free port between {FIRST_PORT} and {LAST_PORT}")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _is_locked(claim: int) -> bool:
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

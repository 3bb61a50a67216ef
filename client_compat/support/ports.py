"""Free TCP ports that stay free while a broker is down.

Rules: a port comes from below the kernel's ephemeral range. A client that keeps dialling a dead broker on an ephemeral port of its own
host can be given that very port as its source, connect to itself, and so keep the broker from binding it again. And a port is claimed
until this process ends: no other that asks here is given it while the broker is down.
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
"""Open files, which hold their locks."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nothing listens on now, and that nobody else claims. Raises OSError when none is found in `ATTEMPTS_MAX` tries."""
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

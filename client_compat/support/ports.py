"""Free TCP ports that stay free while a broker is down.

Rule: a port comes from below the kernel's ephemeral range. A client that keeps dialling a dead broker on an ephemeral port of its own
host can be given that very port as its source, connect to itself, and so keep the broker from binding it again.
"""

from __future__ import annotations

import random
import socket

FIRST_PORT = 20_000
LAST_PORT = 32_000
ATTEMPTS_MAX = 200


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nothing listens on now. Raises OSError when none is found in `ATTEMPTS_MAX` tries."""
    for port in random.sample(range(FIRST_PORT, LAST_PORT), ATTEMPTS_MAX):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {FIRST_PORT} and {LAST_PORT}")

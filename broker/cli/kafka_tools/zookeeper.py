"""`zookeeper-server-start`: there is none. Scripts of ZooKeeper's days start one beside their Kafka, and some wait until its port is open.

So the port that the file names is open for as long as the container lives, and whoever connects is hung up on; without one it ends at once.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from ottla.broker.core.settings_load import SettingsError, read_properties


def main(argv: Sequence[str]) -> int:
    """The exit code. Does not return where the file that is the first argument names a clientPort."""
    print("There is no ZooKeeper here, and the broker needs none.", flush=True)
    try:
        port = read_properties(Path(argv[0])).get("clientPort") if argv else None
        if port is None:
            return 0
        with socket.create_server(("", int(port))) as listening:
            while True:
                listening.accept()[0].close()
    except (SettingsError, OSError, ValueError, OverflowError) as error:
        print(f"Its port is not open: {error}", file=sys.stderr)
        return 0

"""`zookeeper-server-start`: a placeholder for scripts that start a ZooKeeper beside Kafka and wait until its port is open.

The clientPort in the given file stays open as long as the container runs, and each connection to it is closed at once. Without a file the
program exits at once.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from ottla.broker.core.settings_load import SettingsError, read_properties


def main(argv: Sequence[str]) -> int:
    """Take the place of `zookeeper-server-start`, so that scripts which start ZooKeeper and wait for its port also work with Ottla: listen
    on the `clientPort` of the properties file `argv[0]`, close each connection at once, and do not return.

    Return 0 if there is no argument, the file has no `clientPort`, or the file or the port cannot be used (then with a message on stderr).
    """
    print("Ottla does not use ZooKeeper, and the broker needs none.", flush=True)
    try:
        port = read_properties(Path(argv[0])).get("clientPort") if argv else None
        if port is None:
            return 0
        with socket.create_server(("", int(port))) as listening:
            while True:
                listening.accept()[0].close()
    except (SettingsError, OSError, ValueError, OverflowError) as error:
        print(f"The ZooKeeper port is not open: {error}", file=sys.stderr)
        return 0

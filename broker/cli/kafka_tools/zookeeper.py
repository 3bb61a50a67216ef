"""`zookeeper-server-start`: there is none. Scripts of ZooKeeper's days start one beside their Kafka; here it ends at once and well."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """The exit code."""
    print("There is no ZooKeeper here, and the broker needs none.", flush=True)
    return 0

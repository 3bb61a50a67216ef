"""What is done to a broker, and how the cluster comes back from it.

Rule: a fault ends with every process running; what it broke is mended by the cluster alone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from enum import StrEnum

from client_compat.kafka.cluster import Cluster, Kind, Node

DOWN_S = (0.0, 4.5)
"""Shorter and longer than a broker's session."""
STILL_S = (0.5, 6.0)
CUT_OFF_S = (0.3, 1.5)
"""Within a session: nobody has left the in-sync set when the leader dies."""


class Fault(StrEnum):
    """By the words of the command line."""

    RESTART = "restart"
    KILL = "kill"
    STOP = "stop"
    CUT_OFF = "cut-off"
    TAKEOVER = "takeover"


def restart(cluster: Cluster, broker: Node, rng: random.Random) -> None:
    """Stopped as an operator does it, and started."""
    broker.stop()
    broker.start()


def kill(cluster: Cluster, broker: Node, rng: random.Random) -> None:
    """SIGKILL, and started again, sometimes before the controller knows."""
    broker.process.kill()
    time.sleep(rng.uniform(*DOWN_S))
    broker.start()


def stand_still(cluster: Cluster, broker: Node, rng: random.Random) -> None:
    """SIGSTOP: its connections stay open, and it wakes up with what it believed."""
    broker.process.pause()
    time.sleep(rng.uniform(*STILL_S))
    broker.process.resume()


def cut_off(cluster: Cluster, broker: Node, rng: random.Random) -> None:
    """It takes what its followers do not get, and dies with that."""
    others = [other for other in cluster.brokers if other is not broker]
    for other in others:
        other.process.pause()
    time.sleep(rng.uniform(*CUT_OFF_S))
    broker.process.kill()
    for other in others:
        other.process.resume()
    time.sleep(rng.uniform(*DOWN_S))
    broker.start()


def take_over(cluster: Cluster, broker: Node, rng: random.Random) -> None:
    """Stopped, and the other kind of broker started on its directory, under its id."""
    broker.stop()
    broker.kind = Kind.OTTLA if broker.kind == Kind.KAFKA else Kind.KAFKA
    broker.start()


DO: Mapping[Fault, Callable[[Cluster, Node, random.Random], None]] = {
    Fault.RESTART: restart,
    Fault.KILL: kill,
    Fault.STOP: stand_still,
    Fault.CUT_OFF: cut_off,
    Fault.TAKEOVER: take_over,
}
EVERY = (Fault.RESTART, Fault.KILL, Fault.STOP, Fault.CUT_OFF)
"""What a broker comes back from by itself."""

"""The broker's environment: its clock, files, network, randomness and threads. A running broker reaches the machine only through it.

A simulation passes its own environment and so controls everything that happens: two runs with the same seed are identical.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random, SystemRandom

from ottla.broker.core.clock import Clock
from ottla.broker.core.threads import Threads
from ottla.broker.net.network import Network, Sockets
from ottla.broker.storage.files import FILES, Files


@dataclass(frozen=True, slots=True)
class Environment:
    """The clock, files, network, randomness and threads that a broker uses; by default those of the machine. `random` also gives the ids of
    topics, members, sessions and directories."""

    clock: Clock = field(default_factory=Clock)
    files: Files = FILES
    network: Network = field(default_factory=Sockets)
    random: Random = field(default_factory=SystemRandom)
    threads: Threads = ThreadPoolExecutor
    incarnation_id: bytes | None = None
    """The incarnation id with which a cluster broker registers; None for a new random one. A broker that is restarted in an earlier saved
    state registers with that state's id, so that the controller, which returned to the same state, leaves the broker's leaderships and ISRs
    alone."""

"""All that a broker takes from outside: time, disk, network, randomness and threads. Nothing else of the machine is asked while it serves.

A simulation that passes its own Environment decides everything that happens; two runs from the same seed are then the same run.
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
    """By default the machine's own. `random` gives ids of topics, members, sessions and directories."""

    clock: Clock = field(default_factory=Clock)
    files: Files = FILES
    network: Network = field(default_factory=Sockets)
    random: Random = field(default_factory=SystemRandom)
    threads: Threads = ThreadPoolExecutor

"""The broker's environment: clock, files, network, randomness and threads. While it serves it uses nothing else of the machine.

A simulation passes an environment of its own and so controls everything: two runs with the same seed are identical.
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
    """What a broker uses of the machine, by default the machine's own. `random` gives the ids of topics, members, sessions and
    directories."""

    clock: Clock = field(default_factory=Clock)
    files: Files = FILES
    network: Network = field(default_factory=Sockets)
    random: Random = field(default_factory=SystemRandom)
    threads: Threads = ThreadPoolExecutor
    incarnation_id: bytes | None = None
    """The cluster broker's incarnation; None draws a new one. A broker that returns to an earlier state is the incarnation of that time, so
    that its controller, which returned too, leaves its leaderships and ISRs alone."""

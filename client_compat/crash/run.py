"""Kills brokers with SIGKILL under load, at random moments: most while they serve clients, some while they are still starting.

Rule: the random source is an argument, so a seed repeats the plan, not the timing.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from client_compat.support.admin import create_topic
from client_compat.support.brokers import BrokerProcess, ottla
from client_compat.support.counted import Counted
from client_compat.support.load import Load, under
from client_compat.support.served import wait_until_served
from client_compat.support.verdict import judge

TOPIC = "crash"
PARTITIONS = 4
KILL_AFTER_S = (0.02, 1.0)
# After every fifth kill, the broker is killed once more while it starts and recovers, START_KILL_AFTER_S seconds after its process began.
START_KILL_EVERY = 5
START_KILL_AFTER_S = (0.0, 0.35)
FLUSH_TIMEOUT_S = 150.0
SERVED_TIMEOUT_S = 30.0
RATE_MAX = 4_000


@dataclass(slots=True)
class Kills:
    """The SIGKILLs of a crash test so far, and how many seconds the broker took to listen again after each restart."""

    done: int = 0
    while_starting: int = 0
    restart_seconds: list[float] = field(default_factory=list)

    def show(self, console: Console) -> None:
        console.print(f"{self.done} SIGKILLs, {self.while_starting} of them while starting.")
        back = self.restart_seconds
        console.print(f"Back after a kill in {statistics.median(back):.2f} s (median), {max(back):.2f} s at most.")


@dataclass(slots=True)
class CrashRun:
    """The results of a crash test: the SIGKILLs, and the comparison of the clients' acknowledgements with the log."""

    kills: Kills
    verdict: Counted

    @property
    def good(self) -> bool:
        return self.verdict.good

    def show(self, console: Console) -> None:
        self.kills.show(console)
        self.verdict.show(console, "Records")


OnKill = Callable[[Kills], None]


def crash(directory: Path, kills: int, seed: int, *, options: Sequence[str] = (), on_kill: OnKill = lambda done: None) -> CrashRun:
    """Kill the broker under idempotent load, compare all acknowledgements with the log, and return the results. `options` are arguments of
    `ottla serve`. Raises `BrokerFailed` if the broker does not restart, `RunFailed` if a client gives up or receives no acknowledgement in
    time."""
    with ottla(directory / "log", options=options, output=directory / "broker.log") as broker:
        create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        load = Load(broker.bootstrap, TOPIC, directory, RATE_MAX)
        with under(load) as clients:
            done = kill_under_load([broker], kills, random.Random(seed), lambda: clients.answered, on_kill)
            clients.finish(FLUSH_TIMEOUT_S)
        return CrashRun(done, judge(load, PARTITIONS))


def kill_under_load(
    brokers: Sequence[BrokerProcess], kills: int, rng: random.Random, answered: Callable[[], Sequence[int]], on_kill: OnKill
) -> Kills:
    """Kill and restart a randomly chosen broker until `kills` kills are done, and return their number and the restart times. `answered`
    returns the number of acknowledgements of each client; all must grow between two kills. Raises `BrokerFailed` if a broker dies or does
    not restart, `RunFailed` if a client receives no acknowledgement in time."""
    found = Kills()

    def check_alive() -> None:
        for each in brokers:
            each.check_alive()

    while found.done < kills:
        wait_until_served(answered, check_alive, SERVED_TIMEOUT_S)
        broker = rng.choice(brokers)
        time.sleep(rng.uniform(*KILL_AFTER_S))
        broker.kill()
        found.done += 1
        if found.done % START_KILL_EVERY == 0:
            broker.spawn()
            time.sleep(rng.uniform(*START_KILL_AFTER_S))
            broker.kill()
            found.done += 1
            found.while_starting += 1
        found.restart_seconds.append(broker.start())
        on_kill(found)
    return found

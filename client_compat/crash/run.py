"""The kills: at random instants after the broker listens, and some while it starts, until `kills` are done.

Rule: the random source is an argument, so a seed repeats the plan (not the interleaving: clients and kernel have their say in that).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from client_compat.support.admin import create_topic
from client_compat.support.brokers import BrokerFailed, BrokerProcess, ottla
from client_compat.support.load import Load, under
from client_compat.support.verdict import AckVerdict, judge

TOPIC = "crash"
PARTITIONS = 4
KILL_AFTER_S = (0.02, 1.0)
# One kill in so many falls while the broker starts and recovers, this many seconds after its process began.
START_KILL_EVERY = 5
START_KILL_AFTER_S = (0.0, 0.35)
FIRST_ACK_TIMEOUT_S = 30.0
FLUSH_TIMEOUT_S = 150.0
LOOK_S = 0.01
RATE_MAX = 4_000


@dataclass(slots=True)
class CrashRun:
    """What was done, and the verdict on it."""

    seed: int
    kills: int = 0
    kills_while_starting: int = 0
    restart_seconds: list[float] = field(default_factory=list)
    seconds: float = 0.0
    verdict: AckVerdict = field(default_factory=AckVerdict)


def crash(directory: Path, kills: int, seed: int, *, options: Sequence[str] = (), on_kill: Callable[[CrashRun], None]) -> CrashRun:
    """Run the whole test in `directory` (made here). Raises `BrokerFailed` when the broker does not come back, `RunFailed` when a client
    gives up."""
    rng, run, began = random.Random(seed), CrashRun(seed), time.perf_counter()
    with ottla(directory / "log", options=options, output=directory / "broker.log") as broker:
        create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        load = Load(broker.bootstrap, TOPIC, directory, RATE_MAX)
        with under(load) as clients:
            while run.kills < kills:
                _wait_until_both_are_served(broker, clients.answered)
                time.sleep(rng.uniform(*KILL_AFTER_S))
                _kill(broker, run, rng)
                on_kill(run)
            clients.finish(FLUSH_TIMEOUT_S)
        run.verdict = judge(load, PARTITIONS)
    run.seconds = time.perf_counter() - began
    return run


def _kill(broker: BrokerProcess, run: CrashRun, rng: random.Random) -> None:
    broker.kill()
    run.kills += 1
    if run.kills % START_KILL_EVERY == 0:
        broker.spawn()
        time.sleep(rng.uniform(*START_KILL_AFTER_S))
        broker.kill()
        run.kills += 1
        run.kills_while_starting += 1
    run.restart_seconds.append(broker.start())


def _wait_until_both_are_served(broker: BrokerProcess, answered: Sequence[int]) -> None:
    """A kill counts as under load only when both clients were answered since the last one."""
    before, deadline = list(answered), time.monotonic() + FIRST_ACK_TIMEOUT_S
    while any(now == then for now, then in zip(answered, before, strict=True)):
        broker.check_alive()
        if time.monotonic() > deadline:
            raise BrokerFailed(f"no acknowledgement for a client within {FIRST_ACK_TIMEOUT_S:.0f} s of a restart:\n{broker.output_tail()}")
        time.sleep(LOOK_S)

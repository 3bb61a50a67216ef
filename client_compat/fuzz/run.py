"""The fuzz run: attackers in one process, normal clients in others, and monitoring of the broker's process.

Checks:
- The broker's process survives, its memory stays below a limit, and its log contains no trace of a bug.
- The normal clients are served without interruption. Their records are in the log once, in order, at the acknowledged offsets.
- With a secured broker, no attacker gets unauthorized access.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich.console import Console

from client_compat.fuzz.attack import TOPIC, Target, attack_once
from client_compat.fuzz.messages import MessageMaker
from client_compat.fuzz.secured import (
    GUEST,
    GUEST_PASSWORD,
    GUESTS_TOPIC,
    SECRET,
    SECRET_TOPIC,
    SecuredListeners,
    UnauthorizedAccess,
    attack_secured_once,
    failed_log_ins,
)
from client_compat.matrix.broker_security import BrokerSecurity
from client_compat.matrix.rights import Operation, Resource, Right, Rights
from client_compat.matrix.truth import Truth
from client_compat.support.admin import create_topic
from client_compat.support.brokers import HOST, BrokerProcess, gateway, ottla
from client_compat.support.load import Load, under
from client_compat.support.verdict import AckVerdict, judge
from ottla.protocol.client import Client
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.registry import declared_keys

GOOD_TOPIC = "well-behaved"
GOOD_PARTITIONS = 2
GOOD_RATE_MAX = 300
KEPT_TOPICS = frozenset({GOOD_TOPIC, TOPIC, "fuzz", "fuzz-2"})
OF_THE_LOCK = frozenset({SECRET_TOPIC, GUESTS_TOPIC})
GUESTS_RIGHT = Right(GUEST, Operation.WRITE, Resource.TOPIC, GUESTS_TOPIC)
SECURITY_ATTACKS = 0.75
TIDY_EVERY_S = 5.0
LOOK_EVERY_S = 0.1
ATTACKERS = 6
FLUSH_TIMEOUT_S = 60.0
FAILING = 20
"""Number of parallel connections that try wrong passwords."""
WARM_UP_LOGINS = 3_000
"""Failed log-ins before the first memory measurement. Garbage collection is rare, so the first few thousand leave 11 MiB to collect."""
BUG = b"Traceback (most recent call last)"
MEBIBYTE = 1024 * 1024
GROWTH_MAX = 12 * MEBIBYTE
"""Permitted memory growth in bytes after ten thousand failed log-ins, with normal clients.

The memory allocator needs this much. If log-ins leaked, the exceptions alone would need more.
"""
# Topic creation by Metadata is off, because the fuzzer would then measure the file system.
BROKER_OPTIONS = ("--set", "auto.create.topics.enable=false", "--set", "num.partitions=1")


@dataclass(slots=True)
class FuzzRun:
    """The parameters and the results of a fuzz run.

    A `locked` broker requires authentication. `failed_logins` log-ins fail before the attacks, and the broker's memory grows by `grown`
    bytes during them. With `through_gateway`, attackers and normal clients connect to Ottla's gateway in front of an open broker, and the
    gateway's process is monitored.
    """

    seed: int
    locked: bool = False
    through_gateway: bool = False
    failed_logins: int = 0
    grown: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    rss_max: int = 0
    rss_limit: int = 0
    longest_wait_s: float = 0.0
    wait_limit_s: float = 0.0
    bugs_logged: int = 0
    died: str = ""
    verdict: AckVerdict = field(default_factory=AckVerdict)

    @property
    def good(self) -> bool:
        bounded = self.rss_max <= self.rss_limit and self.longest_wait_s <= self.wait_limit_s and self.grown <= GROWTH_MAX
        return not self.died and bounded and self.bugs_logged == 0 and self.verdict.good

    def show(self, console: Console) -> None:
        console.print(f"Thrown in {self.seconds:.0f} s: " + ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items())))
        waited, rss = f"{self.longest_wait_s:.2f} of {self.wait_limit_s:.0f} s", f"{self.rss_max / MEBIBYTE:.0f}"
        console.print(f"The broker's process: {self.died or 'alive'}; {rss} of {self.rss_limit / MEBIBYTE:.0f} MiB resident memory.")
        if self.failed_logins:
            grown = f"{self.grown / MEBIBYTE:.1f} of {GROWTH_MAX / MEBIBYTE:.0f} MiB"
            console.print(f"Left in memory by {self.failed_logins:,} failed log-ins: {grown}.")
        console.print(f"Bugs in the broker's log: {self.bugs_logged}. Longest wait of a good client: {waited}.")
        self.verdict.show(console, "Good clients' records")


class _Watch:
    """Monitors the broker's memory and the normal clients' progress during the attacks."""

    def __init__(self, run: FuzzRun, broker: BrokerProcess, answered: Sequence[int]) -> None:
        self.run, self._broker, self._answered = run, broker, answered
        self._since = [time.monotonic()] * len(answered)
        self._before = list(answered)

    def look(self) -> None:
        self._broker.check_alive()
        self.run.rss_max = max(self.run.rss_max, self._broker.usage().rss_bytes)
        now = time.monotonic()
        for index, count in enumerate(self._answered):
            self.run.longest_wait_s = max(self.run.longest_wait_s, now - self._since[index])
            if count != self._before[index]:
                self._before[index], self._since[index] = count, now


def advertised(port: int) -> list[tuple[int, int, int]]:
    """Return (API key, lowest version, highest version) of the broker's APIs that the protocol package knows."""
    with Client(HOST, port, client_id="fuzz") as client:
        answer: Any = client.call(ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"))
    return [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys if api.api_key in declared_keys()]


def _tidy(bootstrap: str, stop: threading.Event) -> None:
    """Delete topics that the attackers' valid requests created, and recreate topics that they deleted."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=logging.getLogger("admin"))
    while not stop.wait(TIDY_EVERY_S):
        try:
            there = set(admin.list_topics(timeout=FLUSH_TIMEOUT_S).topics)
            if unwanted := [name for name in there - KEPT_TOPICS - OF_THE_LOCK if not name.startswith("__")]:
                for future in admin.delete_topics(unwanted).values():
                    future.exception(FLUSH_TIMEOUT_S)
            for name in KEPT_TOPICS - there:
                create_topic(bootstrap, name, GOOD_PARTITIONS)
        except KafkaException as error:  # an attacker changed the topic meanwhile; retried in the next round
            logging.getLogger("admin").info("tidying: %s", error)


def fuzz(directory: Path, seconds: float, run: FuzzRun, *, on_look: Callable[[FuzzRun], None]) -> FuzzRun:
    """Start a new broker in `directory`, which is created here, and attack it for `seconds` seconds.

    `run` provides the limits and receives the results. Raises `BrokerFailed` if the broker does not start, and `RunFailed` if a normal
    client gives up.
    """
    began = time.monotonic()
    broker_security = BrokerSecurity(directory / "tls") if run.locked else None
    with _started(directory, broker_security) as served, _front(directory, served, run) as broker:
        for name in sorted(KEPT_TOPICS):
            create_topic(broker.bootstrap, name, GOOD_PARTITIONS)
        if broker_security is not None:
            _furnish(broker)
        load = Load(broker.bootstrap, GOOD_TOPIC, directory, GOOD_RATE_MAX)
        with under(load) as clients:
            while not all(clients.answered):
                broker.check_alive()
                time.sleep(LOOK_EVERY_S)
            apis, seeds = advertised(broker.port), random.Random(run.seed)
            rngs = [random.Random(seeds.random()) for _ in range(ATTACKERS)]
            targets = [Target((HOST, broker.port), apis, MessageMaker(rng), rng) for rng in rngs]
            attacks = [_attacks(target, broker_security) for target in targets]
            try:
                if broker_security is not None:
                    _fail_to_log_in([SecuredListeners(broker_security, target) for target in targets], broker, run)
                _attack(targets, attacks, _Watch(run, broker, clients.answered), time.monotonic() + seconds, on_look)
                if broker_security is not None:
                    _check_secret(broker)
            except (OSError, RuntimeError) as failure:
                run.died = f"{failure}\n{broker.output_tail()}"
            if not run.died:
                clients.finish(FLUSH_TIMEOUT_S)
        if not run.died:
            run.verdict = judge(load, GOOD_PARTITIONS)
    run.bugs_logged = sum(log.read_bytes().count(BUG) for log in (directory / "broker.log", directory / "gateway.log") if log.exists())
    run.seconds = time.monotonic() - began
    return run


def _started(directory: Path, broker_security: BrokerSecurity | None) -> BrokerProcess:
    if broker_security is None:
        return ottla(directory / "log", options=BROKER_OPTIONS, output=directory / "broker.log")
    settings = dict(option.split("=") for option in BROKER_OPTIONS if "=" in option)
    delay = {"connection.failed.authentication.delay.ms": "10"}  # makes wrong passwords faster than with the default delay
    return broker_security.ottla(directory, settings | delay, directory / "broker.log")


@contextmanager
def _front(directory: Path, broker: BrokerProcess, run: FuzzRun) -> Iterator[BrokerProcess]:
    """Yield the process that is attacked: the broker, or a gateway before it. Raises `BrokerFailed` at the end if the broker behind the
    gateway died."""
    if not run.through_gateway:
        yield broker
        return
    with gateway(broker.bootstrap, directory / "gateway.log") as front:
        yield front
    broker.check_alive()


def _furnish(broker: BrokerProcess) -> None:
    """Create the protected topic that attackers try to access, and the guest, a user who may only write to one other topic."""
    truth, rights = Truth(broker.port), Rights(broker.port)
    truth.create_topic(SECRET_TOPIC)
    truth.write_values(SECRET_TOPIC, [SECRET])
    truth.create_topic(GUESTS_TOPIC)
    rights.add_user(GUEST, GUEST_PASSWORD)
    rights.grant(GUESTS_RIGHT)


def _check_secret(broker: BrokerProcess) -> None:
    """Check that the topic which no attacker may write still has its single record. Raises UnauthorizedAccess if not."""
    if (values := Truth(broker.port).values(SECRET_TOPIC)) != [SECRET]:
        raise UnauthorizedAccess(f"{SECRET_TOPIC} has {len(values)} records: {values[:3]!r}")


def _fail_to_log_in(targets: Sequence[SecuredListeners], broker: BrokerProcess, run: FuzzRun) -> None:
    """Make `run.failed_logins` failing attempts to authenticate, and store in `run.grown` by how many bytes the broker's memory grew after
    the warm-up."""
    with ThreadPoolExecutor(FAILING, "failing") as pool:
        each = max(1, run.failed_logins // FAILING)
        if run.failed_logins:
            list(
                pool.map(
                    lambda number: failed_log_ins(targets[number % len(targets)], min(WARM_UP_LOGINS // FAILING, each)), range(FAILING)
                )
            )
            before = broker.usage().rss_bytes
            list(pool.map(lambda number: failed_log_ins(targets[number % len(targets)], each), range(FAILING)))
            run.grown = max(0, broker.usage().rss_bytes - before)


def _attacks(target: Target, broker_security: BrokerSecurity | None) -> Callable[[], None]:
    """Return a function that runs one random attack. With a secured broker, three of four attacks are attacks on its security."""
    if broker_security is None:
        return partial(attack_once, target)
    listeners = SecuredListeners(broker_security, target)
    return lambda: attack_secured_once(listeners) if target.rng.random() < SECURITY_ATTACKS else attack_once(target)


def _attack(
    targets: Sequence[Target],
    attacks: Sequence[Callable[[], None]],
    watch: _Watch,
    until: float,
    on_look: Callable[[FuzzRun], None],
) -> None:
    """Run all attackers in parallel until the time `until` of time.monotonic. Raises an attacker's error, for instance OSError if the
    broker accepts no connection any more."""
    stop = threading.Event()
    tidier = threading.Thread(target=_tidy, args=(f"{targets[0].address[0]}:{targets[0].address[1]}", stop), daemon=True)
    tidier.start()
    with ThreadPoolExecutor(len(targets), "attacker") as pool:
        attackers = [pool.submit(_attack_until, target, attack, stop) for target, attack in zip(targets, attacks, strict=True)]
        try:
            while time.monotonic() < until and not any(attacker.done() for attacker in attackers):
                watch.look()
                watch.run.counts = sum((Counter(dict(target.counts)) for target in targets), Counter())
                on_look(watch.run)
                time.sleep(LOOK_EVERY_S)
            watch.look()
        finally:
            stop.set()
            tidier.join(FLUSH_TIMEOUT_S)
        for attacker in attackers:
            attacker.result()


def _attack_until(target: Target, attack: Callable[[], None], stop: threading.Event) -> None:
    try:
        while not stop.is_set():
            attack()
    finally:
        for peer in target.loris:
            peer.close()

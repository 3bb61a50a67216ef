"""The fuzz run: attackers in one process, good clients in others, and a watch on the broker's process.

Promises checked: the process lives; its memory stays below a limit; it logs no trace of a bug; the good clients are served all the time,
and their records are in the log once, in order, at the offsets they were told. Of a locked broker: nobody comes in.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from client_compat.fuzz.attack import TOPIC, Target, attack_once
from client_compat.fuzz.doors import (
    GUEST,
    GUEST_PASSWORD,
    GUESTS_TOPIC,
    SECRET,
    SECRET_TOPIC,
    Door,
    SomebodyIsIn,
    attack_door_once,
    failed_log_ins,
)
from client_compat.fuzz.messages import MessageMaker
from client_compat.matrix.lock import Lock
from client_compat.matrix.rights import Operation, Resource, Right, Rights
from client_compat.matrix.truth import Truth
from client_compat.support.admin import create_topic
from client_compat.support.brokers import HOST, BrokerProcess, ottla
from client_compat.support.load import Load, under
from client_compat.support.verdict import AckVerdict, judge
from ottla.protocol.client import Client
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.registry import KEYS

GOOD_TOPIC = "well-behaved"
GOOD_PARTITIONS = 2
GOOD_RATE_MAX = 300
KEPT_TOPICS = frozenset({GOOD_TOPIC, TOPIC, "fuzz", "fuzz-2"})
OF_THE_LOCK = frozenset({SECRET_TOPIC, GUESTS_TOPIC})
GUESTS_RIGHT = Right(GUEST, Operation.WRITE, Resource.TOPIC, GUESTS_TOPIC)
AT_DOORS = 0.75
TIDY_EVERY_S = 5.0
LOOK_EVERY_S = 0.1
ATTACKERS = 6
FLUSH_TIMEOUT_S = 60.0
FAILING = 20
"""Connections at a time, of those who only fail to log in."""
WARM_UP_LOGINS = 3_000
"""Before the broker's memory is looked at: its collector looks seldom, so that the first few thousand leave 11 MiB for it to find."""
BUG = b"Traceback (most recent call last)"
MEBIBYTE = 1024 * 1024
GROWTH_MAX = 12 * MEBIBYTE
"""What ten thousand failed log-ins may leave, beside clients that work: of an allocator, not of log-ins, whose exceptions alone would take
more."""
# Kept small and plain: a fuzzer that makes topics by asking for their metadata measures the file system.
BROKER_OPTIONS = ("--set", "auto.create.topics.enable=false", "--set", "num.partitions=1")


@dataclass(slots=True)
class FuzzRun:
    """What was thrown, and what it did. A `locked` broker asks who its clients are; `failed_logins` come before all else, and leave it
    `grown` by so many bytes."""

    seed: int
    locked: bool = False
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


class _Watch:
    """Looks at the broker's memory and the good clients' progress, beside the attackers."""

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
    """What the broker says it serves, as far as this project knows the messages."""
    with Client(HOST, port, client_id="fuzz") as client:
        answer: Any = client.call(ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"))
    return [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys if api.api_key in KEYS]


def _tidy(bootstrap: str, stop: threading.Event) -> None:
    """Remove the topics that valid requests made, and make again those that they removed."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=logging.getLogger("admin"))
    while not stop.wait(TIDY_EVERY_S):
        try:
            there = set(admin.list_topics(timeout=FLUSH_TIMEOUT_S).topics)
            if unwanted := [name for name in there - KEPT_TOPICS - OF_THE_LOCK if not name.startswith("__")]:
                for future in admin.delete_topics(unwanted).values():
                    future.exception(FLUSH_TIMEOUT_S)
            for name in KEPT_TOPICS - there:
                create_topic(bootstrap, name, GOOD_PARTITIONS)
        except KafkaException as error:  # an attacker was quicker; next time
            logging.getLogger("admin").info("tidying: %s", error)


def fuzz(directory: Path, seconds: float, run: FuzzRun, *, on_look: Callable[[FuzzRun], None]) -> FuzzRun:
    """Attack a new broker in `directory` (made here) for `seconds`; the limits are read from `run`, the findings written to it.
    Raises `BrokerFailed` when the broker cannot even be started, and `RunFailed` when a good client gives up."""
    began = time.monotonic()
    lock = Lock(directory / "tls") if run.locked else None
    with _started(directory, lock) as broker:
        for name in sorted(KEPT_TOPICS):
            create_topic(broker.bootstrap, name, GOOD_PARTITIONS)
        if lock is not None:
            _furnish(broker)
        load = Load(broker.bootstrap, GOOD_TOPIC, directory, GOOD_RATE_MAX)
        with under(load) as clients:
            while not all(clients.answered):
                broker.check_alive()
                time.sleep(LOOK_EVERY_S)
            apis, seeds = advertised(broker.port), random.Random(run.seed)
            rngs = [random.Random(seeds.random()) for _ in range(ATTACKERS)]
            targets = [Target((HOST, broker.port), apis, MessageMaker(rng), rng) for rng in rngs]
            attacks = [_attacks(target, lock) for target in targets]
            try:
                if lock is not None:
                    _fail_to_log_in([Door(lock, target) for target in targets], broker, run)
                _attack(targets, attacks, _Watch(run, broker, clients.answered), time.monotonic() + seconds, on_look)
                if lock is not None:
                    _check_secret(broker)
            except (OSError, RuntimeError) as failure:
                run.died = f"{failure}\n{broker.output_tail()}"
            if not run.died:
                clients.finish(FLUSH_TIMEOUT_S)
        if not run.died:
            run.verdict = judge(load, GOOD_PARTITIONS)
    run.bugs_logged = (directory / "broker.log").read_bytes().count(BUG)
    run.seconds = time.monotonic() - began
    return run


def _started(directory: Path, lock: Lock | None) -> BrokerProcess:
    if lock is None:
        return ottla(directory / "log", options=BROKER_OPTIONS, output=directory / "broker.log")
    settings = dict(option.split("=") for option in BROKER_OPTIONS if "=" in option)
    delay = {"connection.failed.authentication.delay.ms": "10"}  # so that guesses come faster than anybody's broker would let them
    return lock.ottla(directory, settings | delay, directory / "broker.log")


def _furnish(broker: BrokerProcess) -> None:
    """What attackers of a locked broker look for, and one user who may do next to nothing."""
    truth, rights = Truth(broker.port), Rights(broker.port)
    truth.create_topic(SECRET_TOPIC)
    truth.write_values(SECRET_TOPIC, [SECRET])
    truth.create_topic(GUESTS_TOPIC)
    rights.add_user(GUEST, GUEST_PASSWORD)
    rights.give(GUESTS_RIGHT)


def _check_secret(broker: BrokerProcess) -> None:
    """Raises SomebodyIsIn where the topic that nobody may write to is not what it was."""
    if (values := Truth(broker.port).values(SECRET_TOPIC)) != [SECRET]:
        raise SomebodyIsIn(f"{SECRET_TOPIC} has {len(values)} records: {values[:3]!r}")


def _fail_to_log_in(doors: Sequence[Door], broker: BrokerProcess, run: FuzzRun) -> None:
    """As often as `run` says, and what the broker has grown by since the first few."""
    with ThreadPoolExecutor(FAILING, "failing") as pool:
        each = max(1, run.failed_logins // FAILING)
        if run.failed_logins:
            list(pool.map(lambda number: failed_log_ins(doors[number % len(doors)], min(WARM_UP_LOGINS // FAILING, each)), range(FAILING)))
            before = broker.usage().rss_bytes
            list(pool.map(lambda number: failed_log_ins(doors[number % len(doors)], each), range(FAILING)))
            run.grown = max(0, broker.usage().rss_bytes - before)


def _attacks(target: Target, lock: Lock | None) -> Callable[[], None]:
    """One attack, chosen anew at each call: of a locked broker three of four are at its doors."""
    if lock is None:
        return partial(attack_once, target)
    door = Door(lock, target)
    return lambda: attack_door_once(door) if target.rng.random() < AT_DOORS else attack_once(target)


def _attack(
    targets: Sequence[Target],
    attacks: Sequence[Callable[[], None]],
    watch: _Watch,
    until: float,
    on_look: Callable[[FuzzRun], None],
) -> None:
    """All attackers side by side until the time is up. Raises what an attacker raised: OSError, when nobody can connect any more."""
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

"""Runs the rounds of `make streams`, in which a Kafka Streams application and its broker are restarted.

In each round a new topic that matches the application's pattern is created, flights are sent, the broker restarts with its directory and
port, and the application restarts with its state directory. A streams group has no patterns, so its application keeps its first topic.

Rules:
- Broker and application stop cleanly in odd rounds and are killed in even ones.
- In two rounds the broker ends first, in the next two the application, so that the broker ends during the application's start.
- The random generator is an argument: a seed repeats the plan, not the timing.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from client_compat.kafka.reference import ReferenceBroker
from client_compat.streams.application import Application, StreamsFailed
from client_compat.streams.flights import Feeder
from client_compat.streams.outputs import PARTITIONS, TOPICS, Outputs, open_transactions, read_all
from client_compat.support.admin import create_topic
from client_compat.support.brokers import BrokerProcess, ottla

BROKERS = ("ottla", "kafka")
SETTINGS = {f"group.streams.{bound}session.timeout.ms": "10000" for bound in ("min.", "")}
"""Broker settings with which a streams group removes a killed member after 10 s, as a classic group does."""
FLIGHTS = 3_000
FIRST_SOURCE = "flights-0"
LINGER_S = (0.0, 2.5)
WAIT_S = 180.0
START_TIMEOUT_S = 120.0
CLEAN_EXITS = (0, 143)
"""Exit codes of a broker that stopped cleanly after SIGTERM: 0, and 143 for a JVM."""
AUDIT_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round of restarts. `updates`, `wrong`, `doubled` and `missed` count all updates since the first round. `back_s`:
    the seconds from the broker's start until it listens. `samples`: descriptions of wrong updates."""

    number: int
    clean: bool
    broker_first: bool
    back_s: float
    seconds: float
    updates: int
    wrong: int
    doubled: int
    missed: int
    samples: tuple[str, ...]

    @property
    def good(self) -> bool:
        return self.updates > 0 and not (self.wrong or self.doubled or self.missed)

    def __str__(self) -> str:
        ended, first = "stopped" if self.clean else "killed", "broker" if self.broker_first else "application"
        counts = f"{self.updates:,} updates, {self.wrong:,} wrong, {self.doubled:,} doubled, {self.missed:,} missed"
        return f"Round {self.number}: {ended}, {first} first, back in {self.back_s:.2f} s; {counts}; {self.seconds:.0f} s"


@dataclass(slots=True)
class StreamsRun:
    """The results of a run of `make streams`: all rounds of restarts, and the checks at the end.

    `open` lists the partitions that still have an open transaction after the application's end; `audit` is the output of `ottla audit`.
    """

    rounds: list[Round] = field(default_factory=list)
    application_starts: int = 0
    open: list[str] = field(default_factory=list)
    audit_code: int = -1
    audit: str = ""

    @property
    def good(self) -> bool:
        return bool(self.rounds) and all(one.good for one in self.rounds) and not self.open and self.audit_code == 0

    def show(self, console: Console) -> None:
        for sample in dict.fromkeys(sample for one in self.rounds for sample in one.samples):
            console.print(sample, style="red", markup=False)
        console.print(f"The application was started {self.application_starts} times.")
        console.print(f"Open transactions after its end: {', '.join(self.open) or 'none'}. `ottla audit`: exit code {self.audit_code}.")
        if self.audit_code:
            console.print(self.audit, markup=False)


def broker_of(kind: str, directory: Path) -> BrokerProcess:
    """Return a broker of this kind (`ottla` or `kafka`) that is not started yet. Its data directory is `log` in `directory`. Raises
    `KafkaMissing` if Apache Kafka is not available, `BrokerFailed` if its directory cannot be formatted."""
    if kind == "ottla":
        options = [f"--set={name}={value}" for name, value in SETTINGS.items()]
        return ottla(directory / "log", options=options, output=directory / "broker.log")
    kafka = ReferenceBroker(directory / "log", settings=SETTINGS)
    kafka.format()
    return kafka.broker


def run(
    directory: Path,
    rounds: int,
    seed: int,
    *,
    kind: str = "ottla",
    protocol: str = "classic",
    on_round: Callable[[Round], None] = lambda _: None,
) -> StreamsRun:
    """Run all rounds with the broker `kind`, then `ottla audit`, and return the results. `protocol` is the application's group protocol.
    All files are in `directory`. Raises `StreamsFailed` if the application or a client fails or a round takes too long, `BrokerFailed` if
    the broker fails, `KafkaMissing` if it is Apache Kafka and not available."""
    found = StreamsRun()
    with broker_of(kind, directory) as broker:
        for topic in (FIRST_SOURCE, *TOPICS):
            create_topic(broker.bootstrap, topic, PARTITIONS)
        application = Application(broker.bootstrap, directory, protocol)
        application.start()
        try:
            play = Play(broker, application, random.Random(seed))
            for number in range(1, rounds + 1):
                found.rounds.append(play.round(number))
                on_round(found.rounds[-1])
            application.close()
        finally:
            application.kill()
        found.application_starts = application.starts
        found.open = open_transactions(broker.bootstrap)
        stop_cleanly(broker)
    command = [sys.executable, "-m", "ottla", "audit", str(directory / "log")]
    audit = subprocess.run(command, capture_output=True, text=True, timeout=AUDIT_TIMEOUT_S, check=False)
    found.audit_code, found.audit = audit.returncode, audit.stdout + audit.stderr
    return found


def stop_cleanly(broker: BrokerProcess) -> None:
    """Stop the broker with SIGTERM. Raises `StreamsFailed` if it does not exit cleanly."""
    if (code := broker.stop()) not in CLEAN_EXITS:
        raise StreamsFailed(f"the broker did not stop cleanly: exit code {code}\n{broker.output_tail()}")


class Play:
    """The broker, application, producer and consumer of a run, and its rounds. While a method waits, it also sends flights and reads the
    application's output."""

    def __init__(self, broker: BrokerProcess, application: Application, rng: random.Random) -> None:
        self._broker, self._application, self._rng = broker, application, rng
        self._feeder, self._outputs = Feeder(broker.bootstrap, rng), Outputs(broker.bootstrap)
        self._topics = [FIRST_SOURCE]
        self._back_s = 0.0

    def round(self, number: int) -> Round:
        """Run one round: create a topic, send flights, and restart broker and application; return the result. Raises `StreamsFailed` if the
        application or a client fails or does not finish in time, `BrokerFailed` if the broker does not restart."""
        began, clean, broker_first = time.monotonic(), number % 2 == 1, (number - 1) // 2 % 2 == 0
        if self._application.protocol == "classic":
            self._topics.append(f"flights-{number}")
            create_topic(self._broker.bootstrap, self._topics[-1], PARTITIONS)
        before = self._outputs.counts.updates
        self._feeder.begin(self._topics, FLIGHTS // 2)
        self.until(lambda: self._outputs.counts.updates > before, "an update")
        steps: list[Callable[[], None]] = [lambda: self._end_broker(clean), lambda: self._restart_application(clean)]
        for step in steps if broker_first else reversed(steps):
            self._linger()
            step()
            self._feeder.begin(self._topics, FLIGHTS // 4)
        self.until(self._all_counted, "every count")
        counts = read_all(self._broker.bootstrap)
        wrong = counts.wrong(self._feeder.expected)
        found = (counts.updates, wrong, counts.doubled, counts.missed, tuple(counts.samples))
        return Round(number, clean, broker_first, self._back_s, time.monotonic() - began, *found)

    def until(self, happened: Callable[[], bool], what: str) -> None:
        """Send flights and read output until `happened` returns True. `what` names the awaited event in errors. Raises `StreamsFailed`
        after WAIT_S seconds, or if the application ended."""
        deadline = time.monotonic() + WAIT_S
        while not happened():
            if time.monotonic() > deadline:
                counts = self._outputs.counts
                late = f"{counts.wrong(self._feeder.expected)} keys lack something ({'; '.join(counts.samples)})"
                raise StreamsFailed(f"{what} did not come within {WAIT_S:.0f} s: {late}\n{self._application.log_tail()}")
            self._application.check_alive()
            self._broker.check_alive()
            self._feeder.step()
            self._outputs.step()

    def _all_counted(self) -> bool:
        return self._feeder.done and self._outputs.counts.last == self._feeder.expected

    def _linger(self) -> None:
        end = time.monotonic() + self._rng.uniform(*LINGER_S)
        self.until(lambda: time.monotonic() > end, "a moment")

    def _end_broker(self, clean: bool) -> None:
        if clean:
            stop_cleanly(self._broker)
        else:
            self._broker.kill()
        self._back_s = self._broker.start(START_TIMEOUT_S)

    def _restart_application(self, clean: bool) -> None:
        if clean:
            self._application.close()
        else:
            self._application.kill()
        self._application.start()

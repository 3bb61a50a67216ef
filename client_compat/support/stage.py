"""The environment of a scripted scenario: a broker process with its admin port (for faults and the clock), clients, and the printed lines.

Rules:
- A scenario never sleeps; it waits for a state that the broker or the client reports.
- The records that it prints were read back from the log.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from confluent_kafka import Producer

from client_compat.matrix.truth import Truth
from client_compat.support.admin_port import AdminPort
from client_compat.support.brokers import BrokerProcess, ottla
from client_compat.support.log_text import describe_log, text
from client_compat.support.ports import free_port
from client_compat.support.reading import read_with_confluent

READ_S = 10.0
QUICK: dict[str, object] = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 10}
SMALL = ("transaction.state.log.num.partitions=1", "offsets.topic.num.partitions=1")
"""Settings of a broker that runs for only a few seconds: one partition of the internal topics instead of fifty."""
QUIET = logging.getLogger("client_compat.librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


@dataclass(slots=True)
class Stage:
    """A running broker with its admin port (for faults and the clock), used by one scripted scenario, and the lines that the scenario has
    printed."""

    broker: BrokerProcess
    admin: AdminPort
    say: Callable[[str], None]
    lines: list[str] = field(default_factory=list)

    @property
    def truth(self) -> Truth:
        return Truth(self.broker.port)

    def print_line(self, line: str) -> None:
        self.lines.append(line)
        self.say(line)

    def producer(self, **settings: object) -> Producer:
        """Return a confluent-kafka producer with short retry intervals. In the names of `settings`, `_` stands for a dot."""
        named = {name if name.endswith("_cb") else name.replace("_", "."): value for name, value in settings.items()}
        return Producer({"bootstrap.servers": self.broker.bootstrap, **QUICK, **named}, logger=QUIET)

    def print_log(self, topic: str, partitions: int = 1) -> None:
        """Print one line about every batch in the logs of the topic, including transaction markers."""
        for line in describe_log(self.truth, topic, partitions):
            self.print_line(f"    {line}")

    def committed(self, topic: str, partitions: int = 1) -> list[str]:
        """Return the values that confluent-kafka's read_committed consumer receives from the whole topic, in order of partition and offset.
        Raises `RunFailed` if it does not reach the end."""
        return [record.value.decode() for record in sorted(read_with_confluent(self.broker.bootstrap, topic, partitions, "read_committed"))]

    def stored(self, topic: str, partition: int = 0) -> list[str]:
        """Return every value in the partition's log, whether its transaction committed or not."""
        return [text(record) for record in self.truth.records(topic, partition)]


class InFlight:
    """Counts the unanswered requests of a confluent-kafka producer, by librdkafka's statistics. Pass an instance as the producer's
    `stats_cb`, together with the settings `SETTINGS`."""

    SETTINGS: ClassVar[dict[str, object]] = {"statistics_interval_ms": 10, "batch_num_messages": 1, "linger_ms": 0}

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, statistics: str) -> None:
        self.count = max((int(broker["waitresp_cnt"]) for broker in json.loads(statistics)["brokers"].values()), default=0)

    def wait(self, producer: Producer, count: int) -> None:
        """Poll the producer until at least `count` requests to one broker are unanswered. Raises TimeoutError after READ_S seconds."""
        deadline = time.monotonic() + READ_S
        while self.count < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.count} of {count} requests are out after {READ_S:.0f} s")
            producer.poll(0.005)


def serve(directory: Path, *, transaction_version: int) -> tuple[BrokerProcess, AdminPort]:
    """Start a broker whose feature `transaction.version` has the level `transaction_version`, without waiting for it; return its process
    and its admin port."""
    admin = AdminPort(free_port())
    settings = [f"transaction.version={transaction_version}", *SMALL]
    options = [*admin.options, *(part for setting in settings for part in ("--set", setting))]
    broker = ottla(directory / f"transaction-version-{transaction_version}", options=options)
    broker.spawn()
    return broker, admin


@contextmanager
def stages(directory: Path, say: Callable[[str], None], versions: Sequence[int]) -> Iterator[dict[int, Stage]]:
    """Run one broker for each of `versions`, levels of the feature `transaction.version`, and yield their stages by level. `say` prints a
    line of a scenario. The brokers start at the same time, and stop at the end of the context."""
    served = {version: serve(directory, transaction_version=version) for version in versions}
    try:
        for _, admin in served.values():
            admin.wait_ready()
        yield {version: Stage(broker, admin, say) for version, (broker, admin) in served.items()}
    finally:
        for broker, _ in served.values():
            broker.stop()

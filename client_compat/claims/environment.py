"""The environment in which claims (statements about exactly-once) are tried: a broker as a process with its admin port, and real clients,
each a program that is controlled as CONTROL.md describes.

Every claim has its own topics, and the faults that it injects are removed when it ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client_compat.claims.wire import Identity, new_producer_id, produce_raw
from client_compat.kafka.cluster import ALL_OTTLA, Cluster, Kind, running
from client_compat.kafka.jars import KafkaMissing
from client_compat.matrix.brokers import Skipped
from client_compat.matrix.clients import CLIENTS
from client_compat.matrix.facades import Client, Consumer
from client_compat.matrix.pool import Pool
from client_compat.matrix.truth import Truth
from client_compat.support.stage import READ_S, Stage, stages

PYTHON = ("confluent-kafka", "aiokafka", "kafka-python")


@dataclass(slots=True)
class ClaimEnvironment:
    """The broker, the client programs and the cluster with which claims (statements about exactly-once) are tried. `java_missing` is the
    reason why the Java client is left out; None if it takes part."""

    stage: Stage
    directory: Path
    pool: Pool
    java_missing: str | None
    stack: ExitStack = field(default_factory=ExitStack)
    """The context managers that are exited at the end of the environment; the cluster, if it was started, is one of them."""
    kinds: Sequence[Kind] = ALL_OTTLA
    """The program (Apache Kafka or Ottla) of each broker of the cluster. Only claims about several brokers use the cluster."""
    controller: Kind = Kind.OTTLA
    """The program (Apache Kafka or Ottla) of the cluster's controller."""
    _clusters: list[Cluster] = field(default_factory=list)
    _clients: dict[str, Client] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def names(self) -> Sequence[str]:
        """The names of the clients with which a claim (a statement about exactly-once) is tried."""
        return PYTHON if self.java_missing else (*PYTHON, "java")

    @property
    def truth(self) -> Truth:
        return self.stage.truth

    def client(self, name: str) -> Client:
        """Return the program that runs the client library `name`; it is started at the first call and used again afterwards. Raises
        `Skipped` if the client is not available here, `BuildFailed` if its program cannot be built, or `ProgramFailed` if the program does
        not start."""
        if name not in self._clients:
            self._clients[name] = Client(name, self.pool.take(name), self.stage.broker.bootstrap)
        return self._clients[name]

    @contextmanager
    def victim(self, name: str) -> Iterator[Client]:
        """Yield a program that runs the client library `name` in a new process, which the claim may kill."""
        program = CLIENTS[name].program(self.directory / f"victim-{name}.log")
        program.start()
        try:
            yield Client(name, program, self.stage.broker.bootstrap)
        finally:
            program.end()

    def name(self, word: str) -> str:
        return f"{word}-{next(self._numbers)}"

    def topic(self, partitions: int = 1) -> str:
        name = self.name("claim")
        self.truth.create_topic(name, partitions)
        return name

    def read(self, topic: str, isolation: Any, count: int, *, client: str = "aiokafka") -> list[str]:
        """Consume partition 0 of the topic from the start, and return the values. Waits for `count` records, and then 0.3 s for one more
        record, which should not exist."""
        consumer: Consumer = self.client(client).consumer(reset="earliest", isolation=isolation)
        consumer.assign([(topic, 0)])
        taken = consumer.poll(count, int(READ_S * 1000)) if count else []
        taken += consumer.poll(1, 300)
        consumer.close()
        return [(one.value or b"").decode() for one in taken]

    def raw(self, topic: str, value: str, producer_id: int, epoch: int, sequence: int, *, count: int = 1) -> tuple[str, int]:
        """Send one Produce request whose batch has this producer id, epoch and base sequence, and `count` equal records. Return the
        response's error name and offset."""
        return produce_raw(self.stage.broker.port, topic, value, Identity(producer_id, epoch, sequence), count=count)

    def new_producer_id(self) -> int:
        """Send InitProducerId to the broker and return the new producer id."""
        return new_producer_id(self.stage.broker.port)

    def cluster(self) -> Cluster:
        """Return a cluster of three brokers, which is started at the first call. Raises `Skipped` if it needs Apache Kafka and that is not
        available."""
        if not self._clusters:
            try:
                cluster = Cluster(self.directory / "cluster", self.kinds, controller_kind=self.controller)
                self._clusters.append(self.stack.enter_context(running(cluster)))
            except KafkaMissing as missing:
                raise Skipped(str(missing)) from None
        return self._clusters[0]

    def restart(self) -> None:
        """Stop the broker cleanly, and start it on the same directory and port."""
        self.stage.broker.stop()
        self.stage.broker.start()
        self.stage.admin.wait_ready()


@contextmanager
def environment(
    directory: Path, kinds: Sequence[Kind] = ALL_OTTLA, controller: Kind = Kind.OTTLA, *, java: bool
) -> Iterator[ClaimEnvironment]:
    """Start a broker with transaction version 2, and yield the environment in which claims are tried. Clients and the cluster are started
    later, when a claim needs them. `kinds` and `controller` are the programs (Ottla or Apache Kafka) of the cluster's nodes. With `java`
    False, the Java client is left out."""
    with stages(directory, lambda line: None, [2]) as ready, Pool(directory / "clients") as pool, ExitStack() as stack:
        missing = pool.missing("java") if java else "left out"
        yield ClaimEnvironment(ready[2], directory, pool, missing, stack, kinds, controller)

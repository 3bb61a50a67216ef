"""Where claims are run: one broker as a process with its admin port, and real clients, each in a program of its own (CONTROL.md).

Rule: every claim has topics of its own; the faults that it loads are gone when it ends.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client_compat.matrix.clients import CLIENTS
from client_compat.matrix.facades import Client, Consumer
from client_compat.matrix.pool import Pool
from client_compat.matrix.truth import Truth
from client_compat.support.brokers import HOST
from client_compat.support.stage import READ_S, Stage, stages
from ottla.protocol.client import Client as Wire
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.records.record import SimpleRecord, build_batch

PYTHON = ("confluent-kafka", "aiokafka", "kafka-python")
PRODUCE_VERSION, INIT_VERSION = 9, 4


@dataclass(slots=True)
class World:
    """`java` is the Java client's name where it may be used and is built, else why not."""

    stage: Stage
    directory: Path
    pool: Pool
    java_missing: str | None
    _clients: dict[str, Client] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def names(self) -> Sequence[str]:
        """The clients to run a claim through."""
        return PYTHON if self.java_missing else (*PYTHON, "java")

    @property
    def truth(self) -> Truth:
        return self.stage.truth

    def client(self, name: str) -> Client:
        """A client's program, started once. Raises `Skipped`, `BuildFailed` or `ProgramFailed`."""
        if name not in self._clients:
            self._clients[name] = Client(name, self.pool.take(name), self.stage.broker.bootstrap)
        return self._clients[name]

    @contextmanager
    def victim(self, name: str) -> Iterator[Client]:
        """A client in a program that may be killed."""
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
        """What a consumer is given of partition 0: waits for `count` records, and a little for more that should not be there."""
        consumer: Consumer = self.client(client).consumer(reset="earliest", isolation=isolation)
        consumer.assign([(topic, 0)])
        taken = consumer.poll(count, int(READ_S * 1000)) if count else []
        taken += consumer.poll(1, 300)
        consumer.close()
        return [(one.value or b"").decode() for one in taken]

    def raw(self, topic: str, value: str, producer_id: int, epoch: int, sequence: int, *, count: int = 1) -> tuple[str, int]:
        """One batch as bytes that no well-behaved client would send; the answer's error name and offset."""
        records = [SimpleRecord(None, value.encode(), time.time_ns() // 1_000_000)] * count
        batch = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
        with Wire(HOST, self.stage.broker.port) as wire:
            answer = wire.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), PRODUCE_VERSION)
        one = answer.responses[0].partition_responses[0]
        return ErrorCode(one.error_code).name, int(one.base_offset)

    def new_producer_id(self) -> int:
        """A producer id from the broker."""
        with Wire(HOST, self.stage.broker.port) as wire:
            return int(wire.call(InitProducerIdRequest(None, 60_000), INIT_VERSION).producer_id)

    def restart(self) -> None:
        """Stop the broker cleanly and start it again on the same directory and port."""
        self.stage.broker.stop()
        self.stage.broker.start()
        self.stage.admin.wait_ready()


@contextmanager
def world(directory: Path, *, java: bool) -> Iterator[World]:
    """A broker of transaction version 2 and no client yet. Without `java`, the Java client is left out."""
    with stages(directory, lambda line: None, [2]) as ready, Pool(directory / "clients") as pool:
        missing = pool.missing("java") if java else "left out"
        yield World(ready[2], directory, pool, missing)

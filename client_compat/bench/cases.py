"""What is measured: librdkafka, idempotent, sending and reading records of one size.

One-record batches are measured a second way, by a bare socket that sends frames made before: librdkafka spends more on such a request than
a broker does, so through it the brokers differ less than they do.

Rules: consuming ends by count, not by the end offset (the Rust broker's memory engine reports a wrong one after multi-record batches);
a case makes its own topic, so cases neither help nor hurt each other; the clock runs from the first record handed over to the last
acknowledgement, and from the assignment to the last record received.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from client_compat.bench.pipeline import pipeline
from client_compat.bench.transactions import transact
from client_compat.support.admin import create_topic
from client_compat.support.brokers import BrokerProcess

SILENCE_S = 30.0
TAKE_AT_ONCE = 20_000
SERVE_EVERY = 1_000
TARGET_100 = 0.8
TARGET_1K = 1.0
TARGET_SINGLE = 4.0
TARGET_TRANSACTIONS = 0.9


class CaseFailed(RuntimeError):
    """A record was refused, or the records did not come."""


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement; `target` is the ratio to the other broker below which something is wrong. `records` is how many things are counted:
    transactions of `records_each` records where the verb is "transact", else records.
    """

    name: str
    verb: str
    record_bytes: int
    partitions: int
    records: int
    target: float
    single: bool = False
    records_each: int = 0

    @property
    def topic(self) -> str:
        if self.verb == "transact":
            return f"bench-transactions-{self.records_each}-{self.partitions}"
        kind = "-pipelined" if self.verb == "pipeline" else "-single" if self.single else ""
        return f"bench-{self.record_bytes}-{self.partitions}{kind}"


def _pair(label: str, size: int, partitions: int, records: int, target: float) -> list[Case]:
    where = f"{label}, {partitions} partition{'s' if partitions > 1 else ''}"
    return [Case(f"{verb} {where}", verb, size, partitions, records, target) for verb in ("produce", "consume")]


CASES: list[Case] = [
    *_pair("100 B", 100, 1, 1_000_000, TARGET_100),
    *_pair("100 B", 100, 6, 1_000_000, TARGET_100),
    *_pair("1 KB", 1_024, 1, 300_000, TARGET_1K),
    *_pair("1 KB", 1_024, 6, 300_000, TARGET_1K),
    Case("one-record batches, five in flight", "pipeline", 100, 1, 30_000, TARGET_SINGLE),
    Case("one-record batches through librdkafka", "produce", 100, 1, 20_000, 0.0, single=True),
    Case("transactions of 1 record (a second)", "transact", 100, 1, 2_000, TARGET_TRANSACTIONS, records_each=1),
    Case("transactions of 100 records over 3 partitions (a second)", "transact", 100, 3, 1_000, TARGET_TRANSACTIONS, records_each=100),
]

# Sent once to each broker before anything is measured: the first pages, threads and code paths are nobody's throughput.
WARM_UP = Case("warm-up", "produce", 100, 2, 100_000, 0.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """Records a second, and the broker's CPU seconds for a million of them."""

    rate: float
    cpu_per_million: float


def measure(case: Case, broker: BrokerProcess) -> Measured:
    """Raises `CaseFailed`. A consume case reads what its produce case of the same broker wrote."""
    if case.verb != "consume":
        create_topic(broker.bootstrap, case.topic, case.partitions)
    before = broker.usage().cpu_seconds
    seconds = _VERBS[case.verb](case, broker.bootstrap)
    used = broker.usage().cpu_seconds - before
    return Measured(case.records / seconds, used * 1e6 / case.records)


def _produce(case: Case, bootstrap: str) -> float:
    errors: list[Any] = []
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "max.in.flight.requests.per.connection": 5,
        "linger.ms": 0 if case.single else 5,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
        "delivery.report.only.error": True,
    }
    if case.single:
        config["batch.num.messages"] = 1
    producer = Producer(config, logger=logging.getLogger("bench"))
    producer.list_topics(case.topic, SILENCE_S)
    value, produce, topic = b"v" * case.record_bytes, producer.produce, case.topic

    def report(error: Any, _message: Any) -> None:
        errors.append(error)

    began = time.perf_counter()
    for number in range(case.records):
        produce(topic, value, partition=number % case.partitions, on_delivery=report)
        if number % SERVE_EVERY == 0:
            producer.poll(0)
    left = producer.flush(2 * SILENCE_S)
    seconds = time.perf_counter() - began
    if errors or left:
        raise CaseFailed(f"{case.name}: {len(errors)} records refused ({errors[:1]}), {left} without an answer")
    return seconds


def _pipeline(case: Case, bootstrap: str) -> float:
    return pipeline(bootstrap, case.topic, case.record_bytes, case.records)


def _transact(case: Case, bootstrap: str) -> float:
    return transact(
        bootstrap,
        case.topic,
        partitions=case.partitions,
        record_bytes=case.record_bytes,
        transactions=case.records,
        records_each=case.records_each,
    )


def _consume(case: Case, bootstrap: str) -> float:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            # Room for all of it: with the defaults the client pauses for a second each time it holds 100,000 small records.
            "queued.min.messages": 2_000_000,
            "queued.max.messages.kbytes": 1_048_576,
        },
        logger=logging.getLogger("bench"),
    )
    taken = 0
    began = time.perf_counter()
    consumer.assign([TopicPartition(case.topic, index, 0) for index in range(case.partitions)])
    while taken < case.records:
        messages = consumer.consume(min(TAKE_AT_ONCE, case.records - taken), SILENCE_S)
        if not messages:
            raise CaseFailed(f"{case.name}: {taken} of {case.records} records, then {SILENCE_S:.0f} s of silence")
        if bad := [message.error() for message in messages if message.error()]:
            raise CaseFailed(f"{case.name}: {bad[0]}")
        taken += len(messages)
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds


_VERBS: dict[str, Callable[[Case, str], float]] = {
    "produce": _produce,
    "consume": _consume,
    "pipeline": _pipeline,
    "transact": _transact,
}

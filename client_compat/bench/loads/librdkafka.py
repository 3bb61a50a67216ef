"""Throughput through librdkafka: idempotent, acks=all, five requests in flight.

Rules:
- The producer has its producer id and connections before the measurement starts. librdkafka requests the id either at once or half a second
  later, depending on a race between its own connections, which is unrelated to the broker.
- Consuming ends by record count, because tansu's memory engine reports a wrong end offset after multi-record batches.
- Producing is measured from the first send to the last acknowledgement, consuming from the assignment to the last record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from client_compat.bench.model import LoadFailed

SILENCE_S = 20.0
TAKE_AT_ONCE = 20_000
SERVE_EVERY = 1_000


def produce(
    bootstrap: str,
    topic: str,
    partitions: int,
    record_bytes: int,
    records: int,
    *,
    single: bool = False,
    properties: Mapping[str, str] | None = None,
) -> float:
    """Send the records round-robin to the partitions; return the seconds from the first send to the last acknowledgement.

    With `single`, each batch has one record. `properties` are further client settings, such as TLS. Raises `LoadFailed` if a record is
    rejected or not acknowledged in time.
    """
    errors: list[Any] = []
    config = {"linger.ms": 0, "batch.num.messages": 1} if single else {"linger.ms": 5}
    producer = ready_producer(bootstrap, topic, partitions, {**config, "delivery.report.only.error": True, **(properties or {})})
    value, send = b"v" * record_bytes, producer.produce

    def report(error: Any, _message: Any) -> None:
        errors.append(error)

    began = time.perf_counter()
    for number in range(records):
        send(topic, value, partition=number % partitions, on_delivery=report)
        if number % SERVE_EVERY == 0:
            producer.poll(0)
    left = producer.flush(2 * SILENCE_S)
    seconds = time.perf_counter() - began
    if errors or left:
        raise LoadFailed(f"{len(errors)} records refused ({errors[:1]}), {left} without an answer")
    return seconds


def ready_producer(bootstrap: str, topic: str, partitions: int, settings: Mapping[str, Any]) -> Producer:
    """Return an idempotent producer that has already written one record to each partition, and so has its producer id and its connections.
    Raises `LoadFailed` if these records are not acknowledged in time."""
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "max.in.flight.requests.per.connection": 5,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
        **settings,
    }
    producer = Producer(config, logger=logging.getLogger("bench"))
    for partition in range(partitions):
        producer.produce(topic, b"first", partition=partition)
    if producer.flush(SILENCE_S):
        raise LoadFailed(f"no first record within {SILENCE_S:.0f} s")
    return producer


def consume(bootstrap: str, topic: str, partitions: int, records: int, properties: Mapping[str, str] | None = None) -> float:
    """Read `records` records from the beginning of the partitions; return the seconds from the assignment to the last record. Raises
    `LoadFailed` if the consumer reports an error, or no record arrives for SILENCE_S seconds."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            # Room for all records: with the defaults, the client pauses for a second whenever 100,000 small records are queued.
            "queued.min.messages": 2_000_000,
            "queued.max.messages.kbytes": 1_048_576,
            **(properties or {}),
        },
        logger=logging.getLogger("bench"),
    )
    taken = 0
    began = time.perf_counter()
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    while taken < records:
        messages = consumer.consume(min(TAKE_AT_ONCE, records - taken), SILENCE_S)
        if not messages:
            raise LoadFailed(f"{taken} of {records} records, then {SILENCE_S:.0f} s of silence")
        if bad := [message.error() for message in messages if message.error()]:
            raise LoadFailed(str(bad[0]))
        taken += len(messages)
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds

"""The three producers, each in a process of its own with a third of the rows: row r goes to client r mod 3.

Every client is used as its documentation says, with settings that a user would choose for throughput; only idempotence differs between
the two runs. All use the same partitioner (murmur2 of the key), so that a carrier has one partition whoever sends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from client_compat.demo.flights import read_rows
from client_compat.demo.ledger import CLIENTS, Ledger, place

LINGER_MS = 20
BATCH_BYTES = 65_536
RETRY_BACKOFF_MS = 50
DELIVERY_TIMEOUT_MS = 90_000
# How many records confluent-kafka takes between two looks at its delivery reports.
SERVE_EVERY = 500


@dataclass(frozen=True, slots=True)
class Load:
    """What a producer process is told."""

    bootstrap: str
    topic: str
    rows: Path
    idempotent: bool
    client_log: Path


class _Share:
    """One client's rows, and the ledger cells it writes."""

    def __init__(self, client: int, load: Load, ledger: Ledger) -> None:
        self._client, self._ledger, self._rows = client, ledger, read_rows(load.rows)

    def __iter__(self) -> Iterator[tuple[int, bytes, bytes]]:
        for row in range(self._client, len(self._rows), len(CLIENTS)):
            key, value = self._rows[row]
            yield row, key, value

    def acked(self, row: int, partition: int, offset: int) -> None:
        self._ledger.acked_at[row] = place(partition, offset)
        self._ledger.acked[self._client] += 1

    def failed(self, row: int, error: object) -> None:
        self._ledger.failed[self._client] += 1
        logging.getLogger(CLIENTS[self._client]).error("row %d failed for good: %s", row, error)


def run_aiokafka(load: Load, share: _Share) -> None:
    asyncio.run(_aiokafka(load, share))


async def _aiokafka(load: Load, share: _Share) -> None:
    def done(row: int, future: asyncio.Future[Any]) -> None:
        if error := future.exception():
            share.failed(row, error)
        else:
            share.acked(row, future.result().partition, future.result().offset)

    producer = AIOKafkaProducer(
        bootstrap_servers=load.bootstrap,
        acks="all",
        enable_idempotence=load.idempotent,
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_BYTES,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        request_timeout_ms=DELIVERY_TIMEOUT_MS,
    )
    async with producer:
        for row, key, value in share:
            future = await producer.send(load.topic, value, key)
            future.add_done_callback(partial(done, row))
        await producer.flush()


def run_confluent(load: Load, share: _Share) -> None:
    def done(row: int, error: Any, message: Any) -> None:
        if error is not None:
            share.failed(row, error)
        else:
            share.acked(row, message.partition(), message.offset())

    producer = Producer(
        {
            "bootstrap.servers": load.bootstrap,
            "acks": "all",
            "enable.idempotence": load.idempotent,
            "partitioner": "murmur2_random",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "retry.backoff.ms": RETRY_BACKOFF_MS,
            "reconnect.backoff.ms": RETRY_BACKOFF_MS,
            "reconnect.backoff.max.ms": 10 * RETRY_BACKOFF_MS,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        },
        logger=logging.getLogger("confluent-kafka"),
    )
    for count, (row, key, value) in enumerate(share):
        while True:
            try:
                producer.produce(load.topic, value, key, on_delivery=partial(done, row))
                break
            except BufferError:
                producer.poll(0.1)
        if count % SERVE_EVERY == 0:
            producer.poll(0)
    producer.flush()


def run_kafka_python(load: Load, share: _Share) -> None:
    from kafka import KafkaProducer  # noqa: PLC0415 # its import takes a third of a second and only this process needs it

    def acked(row: int, metadata: Any) -> None:
        share.acked(row, metadata.partition, metadata.offset)

    producer = KafkaProducer(
        bootstrap_servers=load.bootstrap,
        acks="all",
        enable_idempotence=load.idempotent,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        reconnect_backoff_max_ms=10 * RETRY_BACKOFF_MS,
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
    )
    for row, key, value in share:
        future = producer.send(load.topic, value, key)
        future.add_callback(partial(acked, row))
        future.add_errback(partial(share.failed, row))
    producer.flush()
    producer.close()


RUNNERS: dict[str, Callable[[Load, _Share], None]] = {
    "aiokafka": run_aiokafka,
    "confluent-kafka": run_confluent,
    "kafka-python": run_kafka_python,
}


def main(client: int, load: Load, ledger: Ledger) -> None:
    """The whole life of one producer process."""
    logging.basicConfig(filename=load.client_log, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    RUNNERS[CLIENTS[client]](load, _Share(client, load, ledger))

"""The demo's three producers, each in its own process with a third of the flights: client r mod 3 sends row r.

Each client is used as documented, with settings for throughput. The demo's two runs, with and without idempotence, use otherwise equal
settings. All clients use the murmur2 partitioner, so that all records of a carrier (the key) are in the same partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from client_compat.demo.flights import read_rows
from client_compat.demo.ledger import CLIENTS, Ledger
from client_compat.support.places import place
from client_compat.support.producers import Feed, send_with_aiokafka, send_with_confluent
from client_compat.support.workers import log_to

LINGER_MS = 20
BATCH_BYTES = 65_536
RETRY_BACKOFF_MS = 50
DELIVERY_TIMEOUT_MS = 90_000

Row = tuple[int, bytes, bytes]
"""A row of the input: (row number, key, value)."""


@dataclass(frozen=True, slots=True)
class ProducerTask:
    """The parameters of the demo's three producer processes. `rows` is the file of all records to send, of which each process sends a
    third."""

    bootstrap: str
    topic: str
    rows: Path
    idempotent: bool
    client_log: Path


class Share(Feed):
    """The third of the flights that one client sends, as a `Feed`. Its callbacks store the acknowledgements and failures in the shared
    ledger."""

    def __init__(self, client: int, load: ProducerTask, ledger: Ledger) -> None:
        self._client, self._ledger, self._rows = client, ledger, read_rows(load.rows)

    def records(self) -> Iterator[Row]:
        for row in range(self._client, len(self._rows), len(CLIENTS)):
            yield row, *self._rows[row]

    def acked(self, number: int, partition: int, offset: int) -> None:
        self._ledger.acked_at[number] = place(partition, offset)
        self._ledger.acked[self._client] += 1

    def failed(self, number: int, error: object) -> None:
        self._ledger.failed[self._client] += 1
        logging.getLogger(CLIENTS[self._client]).error("row %d failed for good: %s", number, error)


def run_aiokafka(load: ProducerTask, share: Share) -> None:
    sending = send_with_aiokafka(
        share,
        load.topic,
        bootstrap_servers=load.bootstrap,
        enable_idempotence=load.idempotent,
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_BYTES,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        request_timeout_ms=DELIVERY_TIMEOUT_MS,
    )
    asyncio.run(sending)


def run_confluent(load: ProducerTask, share: Share) -> None:
    settings = {
        "bootstrap.servers": load.bootstrap,
        "enable.idempotence": load.idempotent,
        "partitioner": "murmur2_random",
        "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES,
        "retry.backoff.ms": RETRY_BACKOFF_MS,
        "reconnect.backoff.ms": RETRY_BACKOFF_MS,
        "reconnect.backoff.max.ms": 10 * RETRY_BACKOFF_MS,
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
    }
    send_with_confluent(share, load.topic, settings)


def run_kafka_python(load: ProducerTask, share: Share) -> None:
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
    for row, key, value in share.records():
        future = producer.send(load.topic, value, key)
        future.add_callback(partial(acked, row))
        future.add_errback(partial(share.failed, row))
    producer.flush()
    producer.close()


RUNNERS: dict[str, Callable[[ProducerTask, Share], None]] = {
    "aiokafka": run_aiokafka,
    "confluent-kafka": run_confluent,
    "kafka-python": run_kafka_python,
}


def main(client: int, load: ProducerTask, ledger: Ledger) -> None:
    """Run a producer process that sends its third of the flights. `client` is the index of its client library in CLIENTS."""
    log_to(load.client_log)
    RUNNERS[CLIENTS[client]](load, Share(client, load, ledger))

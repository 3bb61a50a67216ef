"""Transactions of one producer, one after the other, as fast as the client's round trips permit."""

from __future__ import annotations

import logging
import time
from typing import Any

from confluent_kafka import KafkaException, Producer

from client_compat.bench.loads.topics import topic
from client_compat.bench.model import LoadFailed, Site, Values

TIMEOUT_S = 60.0
COMMITS = "transactions"


def transactions(site: Site, *, partitions: int, record_bytes: int, count: int, records_each: int) -> Values:
    with topic(site, f"transactions-{records_each}-{partitions}", partitions) as name:
        seconds = transact(
            site.broker.bootstrap,
            name,
            partitions=partitions,
            record_bytes=record_bytes,
            transactions=count,
            records_each=records_each,
        )
    return {COMMITS: count / seconds}


def transact(bootstrap: str, topic: str, *, partitions: int, record_bytes: int, transactions: int, records_each: int) -> float:
    """Commit `transactions` transactions of `records_each` records, one after the other, and return the seconds from the first begin to the
    last commit. Raises `LoadFailed` if a call of the producer fails."""
    config: dict[str, Any] = {"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 0}
    producer = Producer(config, logger=logging.getLogger("bench"))
    value = b"v" * record_bytes
    try:
        producer.init_transactions(TIMEOUT_S)
        # lets the client find the coordinator and the leaders before the measurement
        _commit(producer, topic, value, partitions, records_each)
        began = time.perf_counter()
        for _ in range(transactions):
            _commit(producer, topic, value, partitions, records_each)
        return time.perf_counter() - began
    except KafkaException as error:
        raise LoadFailed(f"{topic}: {error.args[0]}") from error


def _commit(producer: Producer, topic: str, value: bytes, partitions: int, records: int) -> None:
    producer.begin_transaction()
    for number in range(records):
        producer.produce(topic, value, partition=number % partitions)
    producer.commit_transaction(TIMEOUT_S)

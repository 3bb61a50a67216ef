"""Acknowledgements that wait for a sync get lost, and idempotent clients retry: everything is in the log once, in order."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from ottla.broker.storage.partition_log import Isolation
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import iter_records
from tests.support.running_broker import RunningBroker

COUNT = 3000


def stored_values(running: RunningBroker) -> list[int]:
    """Return the records of partition t-0 as numbers."""
    log = running.call(lambda broker: broker.services.partitions.get("t", 0).log)
    found: list[int] = []
    offset = 0
    while offset < log.log_end_offset:
        read = partial(log.read, offset, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True)
        chunk = running.call(lambda _, read=read: read().records)
        for pos, header in split_batches(chunk):
            found += [int(bytes(record.value or b"")) for record in iter_records(chunk[pos : pos + header.size_bytes])]
            offset = header.next_offset
    return found


def produce_with_confluent(bootstrap: str) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "batch.num.messages": 30,
        "linger.ms": 1,
        "reconnect.backoff.ms": 1,
    }
    producer = Producer({**settings, "reconnect.backoff.max.ms": 20, "retry.backoff.ms": 1, "log_level": 0})
    for number in range(COUNT):
        producer.produce("t", str(number).encode(), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def produce_with_aiokafka(bootstrap: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, max_batch_size=1000, retry_backoff_ms=5)
        await producer.start()
        try:
            await asyncio.gather(*[await producer.send("t", str(number).encode(), partition=0) for number in range(COUNT)])
        finally:
            await producer.stop()

    asyncio.run(run())


@pytest.mark.parametrize("produce", [produce_with_confluent, produce_with_aiokafka])
def test_idempotent_producer_stores_each_record_once_in_order_despite_lost_acks(tmp_path: Path, produce: object) -> None:
    settings = {"log.flush.interval.messages": "1"}
    with RunningBroker(tmp_path / "data", settings, faults=["drop-ack:api=Produce,share=0.1,seed=7"]) as running:
        assert callable(produce)
        produce(running.bootstrap)
        (rule,) = running.faults.rules
        assert rule.hits > 3, "the run was one of lost acknowledgements"
        assert stored_values(running) == list(range(COUNT))

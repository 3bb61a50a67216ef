"""The input written and the output read, by clients that have no part in the fight."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from client_compat.demo.flights import read_rows
from client_compat.demo_transactions.counting import Counts, Increment, count
from client_compat.demo_transactions.instance import INPUT, INPUT_PARTITIONS
from client_compat.support.workers import RunFailed

SERVE_EVERY = 2_000
FLUSH_S = 90.0
READ_RECORDS = 10_000
READ_S = 0.5
QUIET_READS_MAX = 40
OUTPUT_PARTITIONS = 3
_LOGGER = logging.getLogger("confluent-kafka")


def load(bootstrap: str, rows: Path, on_progress: Callable[[int], None]) -> tuple[Counts, list[int]]:
    """Write all flights with an idempotent producer; the right counts, and the number of records in each partition. Raises `RunFailed`."""
    flights = read_rows(rows)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "batch.size": 262_144,
        },
        logger=_LOGGER,
    )
    for number, (key, value) in enumerate(flights):
        while True:
            try:
                producer.produce(INPUT, value, key)
                break
            except BufferError:
                producer.poll(0.1)
        if number % SERVE_EVERY == 0:
            producer.poll(0)
            on_progress(number - len(producer))
    left = producer.flush(FLUSH_S)
    sizes = ends(bootstrap, INPUT, INPUT_PARTITIONS)
    on_progress(sum(sizes))
    if left or sum(sizes) != len(flights):
        raise RunFailed(f"of {len(flights):,} flights {sum(sizes):,} were loaded")
    return count(flights), sizes


def ends(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """The end offset of each partition."""
    consumer = _consumer(bootstrap, "read_committed")
    found = [
        consumer.get_watermark_offsets(TopicPartition(topic, partition), READ_S * QUIET_READS_MAX)[1] for partition in range(partitions)
    ]
    consumer.close()
    return found


def read_with_confluent(bootstrap: str, topic: str, isolation: str) -> list[Increment]:
    """Every increment that a reader of this isolation level is given. Raises `RunFailed` when the end of the log is not reached."""
    consumer, quiet = _consumer(bootstrap, isolation), 0
    output: list[Increment] = []
    at_end: set[int | None] = set()
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(OUTPUT_PARTITIONS)])
    while len(at_end) < OUTPUT_PARTITIONS:
        messages = consumer.consume(READ_RECORDS, READ_S)
        quiet = 0 if messages else quiet + 1
        if quiet > QUIET_READS_MAX:
            raise RunFailed(f"{isolation}: the end of {topic} cannot be reached; is a transaction hanging?")
        for message in messages:
            if message.error() is None:
                output.append(Increment.parse(message.value() or b""))
            else:
                at_end.add(message.partition())  # the only error asked for
    consumer.close()
    return output


def read_with_aiokafka(bootstrap: str, topic: str) -> list[Increment]:
    """As `read_with_confluent`, always read_committed."""
    return asyncio.run(_read_with_aiokafka(bootstrap, topic))


async def _read_with_aiokafka(bootstrap: str, topic: str) -> list[Increment]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest", enable_auto_commit=False
    )
    output: list[Increment] = []
    async with consumer:
        partitions = [AioPartition(topic, partition) for partition in range(OUTPUT_PARTITIONS)]
        consumer.assign(partitions)
        stable, quiet = await consumer.end_offsets(partitions), 0
        while any([await consumer.position(tp) < end for tp, end in stable.items()]):
            batches = await consumer.getmany(timeout_ms=int(READ_S * 1000), max_records=READ_RECORDS)
            quiet = 0 if batches else quiet + 1
            if quiet > QUIET_READS_MAX:
                raise RunFailed(f"aiokafka: the end of {topic} cannot be reached; is a transaction hanging?")
            output.extend(Increment.parse(record.value) for records in batches.values() for record in records)
    return output


def lag_of(bootstrap: str, group: str, sizes: list[int]) -> int:
    """Input records that the group has not committed."""
    consumer = _consumer(bootstrap, "read_committed", group)
    committed = consumer.committed([TopicPartition(INPUT, partition) for partition in range(INPUT_PARTITIONS)], READ_S * QUIET_READS_MAX)
    consumer.close()
    return sum(sizes) - sum(max(0, tp.offset) for tp in committed)


def _consumer(bootstrap: str, isolation: str, group: str = "demo-reader") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        },
        logger=_LOGGER,
    )

"""Reads a whole topic with real consumers, up to its end offsets at the start of reading, and a group's committed offsets."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from client_compat.support.workers import RunFailed

READ_RECORDS = 10_000
READ_S = 0.5
QUIET_READS_MAX = 40
RESPONSE_TIMEOUT_S = 20.0
STABLE_TIMEOUT_S = 30.0
POLL_S = 0.05
_LOGGER = logging.getLogger("client_compat.reading")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
"""Without a handler, aiokafka's warnings about dead brokers would go to the terminal."""


class Consumed(NamedTuple):
    """One consumed record. A null value is represented by empty bytes."""

    partition: int
    offset: int
    value: bytes


def read_with_confluent(bootstrap: str, topic: str, partitions: int, isolation: str) -> list[Consumed]:
    """Read the topic with confluent-kafka; return the records, ordered by offset within each partition. `isolation` is the isolation.level.
    Raises `RunFailed` if the end of the log is not reached."""
    consumer, quiet = _consumer(bootstrap, isolation), 0
    taken: list[Consumed] = []
    at_end: set[int | None] = set()
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    while len(at_end) < partitions:
        messages = consumer.consume(READ_RECORDS, READ_S)
        quiet = _quiet(messages, quiet, f"{isolation}: the end of {topic}")
        for message in messages:
            if message.error() is None:
                taken.append(Consumed(message.partition() or 0, message.offset() or 0, message.value() or b""))
            else:
                at_end.add(message.partition())  # the only error that is enabled
    consumer.close()
    return taken


def read_with_aiokafka(bootstrap: str, topic: str, partitions: int, isolation: str) -> list[Consumed]:
    """Read the topic with aiokafka; return the records, ordered by offset within each partition. `isolation` is the isolation level. Raises
    `RunFailed` if the end of the log is not reached."""
    return asyncio.run(_read_with_aiokafka(bootstrap, topic, partitions, isolation))


async def _read_with_aiokafka(bootstrap: str, topic: str, count: int, isolation: str) -> list[Consumed]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest", enable_auto_commit=False
    )
    taken: list[Consumed] = []
    async with consumer:
        partitions = [AioPartition(topic, partition) for partition in range(count)]
        consumer.assign(partitions)
        ends, quiet = await consumer.end_offsets(partitions), 0
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            batches = await consumer.getmany(timeout_ms=int(READ_S * 1000), max_records=READ_RECORDS)
            quiet = _quiet(batches, quiet, f"aiokafka: the end of {topic}")
            for tp, records in batches.items():
                taken.extend(Consumed(tp.partition, record.offset, record.value or b"") for record in records)
    return taken


def _quiet(came: object, quiet: int, what: str) -> int:
    """Return the number of consecutive reads without records: 0 if `came` has records, otherwise `quiet` + 1. Raises `RunFailed` if that
    number exceeds QUIET_READS_MAX."""
    quiet = 0 if came else quiet + 1
    if quiet > QUIET_READS_MAX:
        raise RunFailed(f"{what} cannot be reached; is a transaction hanging?")
    return quiet


def wait_until_stable(bootstrap: str, topic: str, partitions: int) -> None:
    """Wait until each partition's last stable offset equals its end offset; this takes a moment, because markers are written only after
    EndTxn was answered. Raises `RunFailed` after a timeout."""
    deadline = time.monotonic() + STABLE_TIMEOUT_S
    while ends(bootstrap, topic, partitions) != (written := ends(bootstrap, topic, partitions, "read_uncommitted")):
        if time.monotonic() > deadline:
            raise RunFailed(f"{topic} ends at {written}, and readers do not get there; is a transaction hanging?")
        time.sleep(POLL_S)


def ends(bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed") -> list[int]:
    """Return the end offset of each partition for a consumer with this isolation level. With read_committed this is the last stable offset,
    which an open transaction holds back."""
    consumer = _consumer(bootstrap, isolation)
    try:
        return [_end(consumer, TopicPartition(topic, partition)) for partition in range(partitions)]
    finally:
        consumer.close()


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """Return a partition's end offset. Retry on OFFSET_NOT_AVAILABLE, which a new leader answers until it knows its high watermark
    (KIP-207)."""
    deadline = time.monotonic() + RESPONSE_TIMEOUT_S
    while True:
        try:
            found: int = consumer.get_watermark_offsets(place, RESPONSE_TIMEOUT_S)[1]
        except KafkaException as error:
            if error.args[0].code() != KafkaError.OFFSET_NOT_AVAILABLE or time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            return found


def lag_of(bootstrap: str, group: str, topic: str, partitions: int) -> int:
    """Return the number of records between the group's committed offsets and the end offsets, summed over the topic's partitions."""
    return sum(ends(bootstrap, topic, partitions)) - sum(committed(bootstrap, group, topic, partitions))


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    """Return the group's committed offset in each partition, 0 if there is none. Raises KafkaException if the request fails."""
    consumer = _consumer(bootstrap, "read_committed", group)
    try:
        found = consumer.committed([TopicPartition(topic, partition) for partition in range(partitions)], RESPONSE_TIMEOUT_S)
    finally:
        consumer.close()
    return [max(0, tp.offset) for tp in found]


def _consumer(bootstrap: str, isolation: str, group: str = "reader") -> Consumer:
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

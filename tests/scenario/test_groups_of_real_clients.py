"""A group with two different clients, and a commit over a SIGKILL; the client matrix tests groups of one client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as RdPartition

from tests.support.group_calls import wait_until_async
from tests.support.running_broker import RunningBroker, ServeProcess
from tests.support.topic_calls import create, produce

PARTITIONS = 4
TIMEOUT_S = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data") as running:
        with running.client() as client:
            create(client, "t", partitions=PARTITIONS)
            for partition in range(PARTITIONS):
                produce(client, "t", *[f"{partition}-{i}".encode() for i in range(5)], partition=partition)
        yield running


@asynccontextmanager
async def member(broker: RunningBroker, **changes: object) -> AsyncIterator[AIOKafkaConsumer]:
    """Run an aiokafka member of group "g"."""
    fields: dict[str, object] = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        "enable_auto_commit": False,
    }
    consumer = AIOKafkaConsumer("t", bootstrap_servers=broker.bootstrap, **(fields | changes))
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


def rdkafka(broker: RunningBroker, **changes: object) -> Consumer:
    config = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 100,
        "session.timeout.ms": 6000,
    }
    return Consumer(config | changes)


async def test_members_of_different_clients_share_one_group(broker: RunningBroker) -> None:
    """aiokafka and librdkafka agree on the range assignor; the broker only carries their bytes."""
    other = rdkafka(broker, **{"partition.assignment.strategy": "range"})
    other.subscribe(["t"])
    try:
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        async with member(broker, partition_assignment_strategy=[RangePartitionAssignor]) as consumer:

            def share() -> bool:
                other.poll(0)
                return len(consumer.assignment()) == len(other.assignment()) == PARTITIONS // 2

            await wait_until_async(share, "they share")
            theirs = {(one.topic, one.partition) for one in other.assignment()}
            assert theirs.isdisjoint((one.topic, one.partition) for one in consumer.assignment())
    finally:
        await asyncio.to_thread(other.close)


def test_a_librdkafka_commit_survives_a_sigkill_of_the_broker(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "data") as process:
        with process.client() as client:
            create(client, "t")
            produce(client, "t", b"a", b"b", b"c")
        consumer = Consumer({"bootstrap.servers": process.bootstrap, "group.id": "g", "enable.auto.commit": False})
        try:
            consumer.commit(offsets=[RdPartition("t", 0, 2, metadata="note")], asynchronous=False)
            process.kill()
            process.start()
            (found,) = consumer.committed([RdPartition("t", 0)], timeout=TIMEOUT_S)
        finally:
            consumer.close()
        assert (found.offset, found.metadata) == (2, "note")

"""Consumer groups of aiokafka, librdkafka and kafka-python, as their users run them."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as RdPartition

from broker.app import Broker
from tests.support.group_calls import describe, wait_until, wait_until_async
from tests.support.running_broker import BrokerProcess, RunningBroker
from tests.support.topic_calls import create, produce

with warnings.catch_warnings():  # it reads its schemas by a function that Python 3.11 deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer

PARTITIONS = 4
PATIENCE_S = 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data") as running:
        with running.client() as client:
            create(client, "t", partitions=PARTITIONS)
            for partition in range(PARTITIONS):
                produce(client, "t", *[f"{partition}-{i}".encode() for i in range(5)], partition=partition)
        yield running


def generation_and_members(broker: RunningBroker) -> tuple[int, list[str]]:
    """What the coordinator of group "g" knows: its generation, and its member ids."""

    def look(running: Broker) -> tuple[int, list[str]]:
        group = running.services.groups.get("g")
        assert group is not None
        return group.generation, [member.member_id for member in group.members]

    return broker.call(look)


@asynccontextmanager
async def member(broker: RunningBroker, **changes: object) -> AsyncIterator[AIOKafkaConsumer]:
    """An aiokafka member of group "g"."""
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


async def test_two_aiokafka_members_share_the_partitions_and_the_one_that_stays_takes_over(broker: RunningBroker) -> None:
    async with member(broker) as first:
        async with member(broker) as second:
            await wait_until_async(lambda: len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2, "they share")
            assert not first.assignment() & second.assignment()
        await wait_until_async(lambda: len(first.assignment()) == PARTITIONS, "the first takes over")
        records = [await asyncio.wait_for(first.getone(), PATIENCE_S) for _ in range(5 * PARTITIONS)]
    assert len({(record.partition, record.offset) for record in records}) == 5 * PARTITIONS


async def test_a_static_aiokafka_member_restarts_without_a_rebalance(broker: RunningBroker) -> None:
    async with member(broker, group_instance_id="one") as first:
        async with member(broker, group_instance_id="two") as second:
            await wait_until_async(lambda: len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2, "they share")
            before, held = generation_and_members(broker)[0], set(second.assignment())
        async with member(broker, group_instance_id="two") as back:
            await wait_until_async(lambda: set(back.assignment()) == held, "it gets back what it had")
            assert generation_and_members(broker)[0] == before


async def test_an_aiokafka_commit_survives_a_crash_and_the_group_goes_on_from_there(broker: RunningBroker) -> None:
    partition = TopicPartition("t", 0)
    async with member(broker) as consumer:
        await consumer.commit({partition: (3, "so far")})
        await asyncio.to_thread(broker.restart, kill=True)
        await wait_until_async(lambda: len(consumer.assignment()) == PARTITIONS, "it holds its partitions")
        assert await consumer.committed(partition) == 3
    async with member(broker) as successor:
        assert await successor.position(partition) == 3


def drain(poll: Callable[[], int], wanted: int, what: str) -> None:
    """Poll until so many records came."""
    got = 0
    deadline = time.monotonic() + PATIENCE_S
    while got < wanted:
        got += poll()
        assert time.monotonic() < deadline, f"{what}: {got} of {wanted}"
    assert got == wanted


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


def test_two_librdkafka_members_share_the_partitions_and_the_one_that_stays_takes_over(broker: RunningBroker) -> None:
    first, second = rdkafka(broker), rdkafka(broker)
    try:
        first.subscribe(["t"])
        second.subscribe(["t"])

        def share() -> bool:
            first.poll(0.02)
            second.poll(0.02)
            return len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2

        wait_until(share, "they share", PATIENCE_S)
        second.close()

        def took_over() -> bool:
            first.poll(0.02)
            return len(first.assignment()) == PARTITIONS

        wait_until(took_over, "the first takes over", PATIENCE_S)
    finally:
        first.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_librdkafka_reads_commits_and_goes_on_where_it_stopped(broker: RunningBroker, strategy: str) -> None:
    first = rdkafka(broker, **{"partition.assignment.strategy": strategy})
    first.subscribe(["t"])
    drain(lambda: len([m for m in first.consume(100, 0.1) if m.error() is None]), 5 * PARTITIONS, "all is read")
    first.commit(asynchronous=False)
    first.close()
    broker.restart(kill=True)
    with broker.client() as client:
        produce(client, "t", b"later")
    second = rdkafka(broker, **{"partition.assignment.strategy": strategy})
    try:
        second.subscribe(["t"])
        values: list[bytes | None] = []

        def read() -> bool:
            values.extend(message.value() for message in second.consume(10, 0.1) if message.error() is None)
            return bool(values)

        wait_until(read, "the rest is read", PATIENCE_S)
        assert values == [b"later"]
    finally:
        second.close()


def test_kafka_python_reads_commits_and_goes_on_where_it_stopped(broker: RunningBroker) -> None:
    def consumer() -> KafkaConsumer:
        return KafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )

    first = consumer()
    drain(lambda: sum(map(len, first.poll(100).values())), 5 * PARTITIONS, "all is read")
    first.commit()
    first.close()
    with broker.client() as client:
        produce(client, "t", b"later")
        assert describe(client).group_state == "Empty"
    second = consumer()
    try:
        values: list[bytes] = []

        def read() -> bool:
            values.extend(record.value for records in second.poll(100).values() for record in records)
            return bool(values)

        wait_until(read, "the rest is read", PATIENCE_S)
        assert values == [b"later"]
    finally:
        second.close()


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
    with BrokerProcess(tmp_path / "data") as process:
        with process.client() as client:
            create(client, "t")
            produce(client, "t", b"a", b"b", b"c")
        consumer = Consumer({"bootstrap.servers": process.bootstrap, "group.id": "g", "enable.auto.commit": False})
        try:
            consumer.commit(offsets=[RdPartition("t", 0, 2, metadata="note")], asynchronous=False)
            process.kill()
            process.start()
            (found,) = consumer.committed([RdPartition("t", 0)], timeout=PATIENCE_S)
        finally:
            consumer.close()
        assert (found.offset, found.metadata) == (2, "note")

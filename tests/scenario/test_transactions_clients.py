"""Real clients and transactions: each commits, aborts, is fenced, reads committed records only, and moves offsets with its records.

aiokafka speaks version 0 of the transaction APIs, librdkafka transaction version 1, the Java client 2 where the broker finalizes it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from client_compat.matrix import facades
from client_compat.matrix.clients import CLIENTS, ToolchainMissing
from client_compat.matrix.control import ClientError, Program
from client_compat.matrix.facades import Client, Record
from tests.support.group_calls import wait_until
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.support.transactions import committed_values

DEADLINE_S = 30
FENCED = {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}
INPUTS = [b"%d" % number for number in range(20)]


@pytest.fixture(scope="module", params=["1", "2"], ids=["transaction.version 1", "transaction.version 2"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("tx") / "data", {"transaction.version": request.param}) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: RunningBroker) -> str:
    """A topic of the test's own."""
    name = "".join(char if char.isalnum() else "-" for char in request.node.name)
    with broker.client() as client:
        create(client, name)
    return name


def values(broker: RunningBroker, topic: str) -> list[bytes | None]:
    """What a reader of committed records gets, read by the project's own client."""
    with broker.client() as client:
        return committed_values(client, topic)


def with_inputs(broker: RunningBroker, topic: str) -> str:
    """A topic to transform."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    with broker.client() as client:
        create(client, f"{topic}-in")
    for value in INPUTS:
        producer.produce(f"{topic}-in", value, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    return f"{topic}-in"


# --- confluent-kafka -------------------------------------------------------------------------------------------------------------------


def confluent_config(broker: RunningBroker, transactional_id: str, timeout_ms: int = 30_000) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "log_level": 0,
    }


def confluent(broker: RunningBroker, transactional_id: str) -> Producer:
    producer = Producer(confluent_config(broker, transactional_id))
    producer.init_transactions(DEADLINE_S)
    return producer


def confluent_read(broker: RunningBroker, topic: str, count: int) -> list[bytes | None]:
    """The first `count` records that a reader of committed records is given."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "alone", "isolation.level": "read_committed", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, DEADLINE_S)
    assert [message.error() for message in messages if message.error()] == []
    consumer.close()
    return [message.value() for message in messages]


def test_confluent_commits_and_aborts_and_reads_what_is_committed(broker: RunningBroker, topic: str) -> None:
    producer = confluent(broker, topic)
    for value in (b"first", b"aborted", b"second"):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        if value == b"aborted":
            assert producer.flush(DEADLINE_S) == 0
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    assert values(broker, topic) == [b"first", b"second"]
    assert confluent_read(broker, topic, 2) == [b"first", b"second"]


def test_confluents_zombie_can_neither_write_nor_commit(broker: RunningBroker, topic: str) -> None:
    zombie = confluent(broker, topic)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie", partition=0)
    assert zombie.flush(DEADLINE_S) == 0
    successor = confluent(broker, topic)
    successor.begin_transaction()
    successor.produce(topic, b"successor", partition=0)
    successor.commit_transaction(DEADLINE_S)
    zombie.produce(topic, b"late", partition=0)
    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(DEADLINE_S)
    assert caught.value.args[0].fatal()
    assert values(broker, topic) == [b"successor"]


def test_confluent_moves_offsets_and_records_together(broker: RunningBroker, topic: str) -> None:
    source, group = with_inputs(broker, topic), f"{topic}-group"
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([source])
    producer = confluent(broker, topic)
    taken, tried, deadline = 0, 0, time.monotonic() + DEADLINE_S
    while taken < len(INPUTS):
        assert time.monotonic() < deadline
        messages = consumer.consume(5, 1)
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(topic, (message.value() or b"") + b"!", partition=0)
        producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), DEADLINE_S)
        tried += 1
        if tried == 2:
            producer.abort_transaction(DEADLINE_S)
            for place in consumer.committed(consumer.assignment(), DEADLINE_S):
                consumer.seek(place)
            continue
        producer.commit_transaction(DEADLINE_S)
        taken += len(messages)
    (committed,) = consumer.committed([TopicPartition(source, 0)], DEADLINE_S)
    consumer.close()
    assert committed.offset == len(INPUTS)
    assert values(broker, topic) == [value + b"!" for value in INPUTS]


# --- aiokafka --------------------------------------------------------------------------------------------------------------------------


async def aiokafka(broker: RunningBroker, transactional_id: str) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=transactional_id)
    await producer.start()
    return producer


async def test_aiokafka_commits_and_aborts_and_reads_what_is_committed(broker: RunningBroker, topic: str) -> None:
    producer = await aiokafka(broker, topic)
    try:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"first", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"second", partition=0)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([AioTopicPartition(topic, 0)])
        async with asyncio.timeout(DEADLINE_S):
            assert [(await consumer.getone()).value for _ in range(2)] == [b"first", b"second"]
    finally:
        await consumer.stop()
    assert values(broker, topic) == [b"first", b"second"]


async def test_aiokafkas_zombie_can_neither_write_nor_commit(broker: RunningBroker, topic: str) -> None:
    zombie = await aiokafka(broker, topic)
    await zombie.begin_transaction()
    await zombie.send_and_wait(topic, b"zombie", partition=0)
    successor = await aiokafka(broker, topic)
    async with successor.transaction():
        await successor.send_and_wait(topic, b"successor", partition=0)
    await successor.stop()
    with pytest.raises(ProducerFenced):
        await zombie.send_and_wait(topic, b"late", partition=0)
    with pytest.raises(ProducerFenced):
        await zombie.commit_transaction()
    await zombie.stop()
    assert values(broker, topic) == [b"successor"]


async def test_aiokafka_moves_offsets_and_records_together(broker: RunningBroker, topic: str) -> None:
    source, group = with_inputs(broker, topic), f"{topic}-group"
    place = AioTopicPartition(source, 0)
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=5,
    )
    await consumer.start()
    producer = await aiokafka(broker, topic)
    try:
        taken = tried = 0
        async with asyncio.timeout(DEADLINE_S):
            while taken < len(INPUTS):
                batch = (await consumer.getmany(timeout_ms=1_000)).get(place, [])
                if not batch:
                    continue
                tried += 1
                await producer.begin_transaction()
                for message in batch:
                    await producer.send(topic, message.value + b"!", partition=0)
                await producer.send_offsets_to_transaction({place: batch[-1].offset + 1}, group)
                if tried == 2:
                    await producer.abort_transaction()
                    consumer.seek(place, batch[0].offset)
                    continue
                await producer.commit_transaction()
                taken += len(batch)
        assert await consumer.committed(place) == len(INPUTS)
    finally:
        await producer.stop()
        await consumer.stop()
    assert values(broker, topic) == [value + b"!" for value in INPUTS]


# --- the Java client -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The newest Java client's program; skips where there is no Java to build it with."""
    kind = CLIENTS["java"]
    try:
        kind.language.ensure_built()
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    with kind.program(tmp_path_factory.mktemp("java") / "log") as started:
        yield started


@pytest.fixture
def java(program: Program, broker: RunningBroker) -> Client:
    return Client("java", program, broker.bootstrap)


def java_producer(java: Client, transactional_id: str) -> facades.Producer:
    return java.producer(transactional_id=transactional_id)


def java_transactions(java: Client, topic: str) -> None:
    """Two transactions that commit, and one between them that aborts."""
    producer = java_producer(java, topic)
    for value in (b"first", b"aborted", b"second"):
        producer.begin()
        producer.send_ok(topic, [Record(value)])
        if value == b"aborted":
            producer.abort()
        else:
            producer.commit()
    producer.close()


def java_read(java: Client, topic: str) -> list[bytes | None]:
    """Every committed record up to the last stable offset."""
    consumer = java.consumer(isolation="read_committed", auto_commit=False)
    place = (topic, 0)
    consumer.assign([place])
    consumer.seek(place, "beginning")
    end = consumer.end_offsets([place])[place]
    found: list[bytes | None] = []
    deadline = time.monotonic() + DEADLINE_S
    while consumer.position([place])[place] < end:
        assert time.monotonic() < deadline
        found += [record.value for record in consumer.poll(1, timeout_ms=200)]
    consumer.close()
    return found


def test_java_takes_an_epoch_for_each_transaction_where_the_broker_finalizes_version_2(
    broker: RunningBroker, topic: str, java: Client
) -> None:
    java_transactions(java, topic)
    epoch = java.admin.describe_transaction(topic)["epoch"]
    assert epoch == (3 if broker.settings["transaction.version"] == "2" else 0)


def test_java_commits_and_aborts_and_reads_what_is_committed(broker: RunningBroker, topic: str, java: Client) -> None:
    java_transactions(java, topic)
    assert java_read(java, topic) == [b"first", b"second"]
    assert values(broker, topic) == [b"first", b"second"]


def test_javas_zombie_can_neither_write_nor_commit(broker: RunningBroker, topic: str, java: Client) -> None:
    zombie = java_producer(java, topic)
    zombie.begin()
    zombie.send_ok(topic, [Record(b"zombie")])
    successor = java_producer(java, topic)
    successor.begin()
    successor.send_ok(topic, [Record(b"successor")])
    successor.commit()
    (late,) = zombie.send(topic, [Record(b"late")])
    assert late.error is not None
    assert late.error.code in FENCED
    with pytest.raises(ClientError) as caught:
        zombie.commit()
    assert caught.value.code in FENCED
    successor.close()
    zombie.close()
    assert values(broker, topic) == [b"successor"]


def test_java_moves_offsets_and_records_together(broker: RunningBroker, topic: str, java: Client) -> None:
    place = (with_inputs(broker, topic), 0)
    producer = java_producer(java, topic)
    consumer = java.consumer(group=f"{topic}-group", isolation="read_committed", reset="earliest", auto_commit=False, max_poll_records=5)
    consumer.subscribe([place[0]])
    taken, deadline = 0, time.monotonic() + DEADLINE_S
    while taken < len(INPUTS):
        assert time.monotonic() < deadline
        batch = consumer.poll(1, timeout_ms=1_000)
        if batch:
            producer.begin()
            producer.send_ok(topic, [Record((record.value or b"") + b"!") for record in batch])
            producer.send_offsets(consumer, {place: batch[-1].offset + 1})
            producer.commit()
            taken += len(batch)
    assert consumer.committed([place]) == {place: len(INPUTS)}
    consumer.close()
    producer.close()
    assert values(broker, topic) == [value + b"!" for value in INPUTS]


def test_what_one_client_commits_all_others_read(broker: RunningBroker, topic: str, java: Client) -> None:
    java_transactions(java, topic)
    producer = confluent(broker, f"{topic}-c")
    producer.begin_transaction()
    producer.produce(topic, b"third", partition=0)
    producer.commit_transaction(DEADLINE_S)
    assert confluent_read(broker, topic, 3) == [b"first", b"second", b"third"]
    assert java_read(java, topic) == [b"first", b"second", b"third"]


def test_a_client_that_dies_amid_its_transaction_holds_readers_no_longer_than_its_timeout(tmp_path: Path) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with RunningBroker(tmp_path / "data", settings) as own:
        with own.client() as client:
            create(client, "t")
        dead = Producer(confluent_config(own, "dead", timeout_ms=1_000))
        dead.init_transactions(DEADLINE_S)
        dead.begin_transaction()
        dead.produce("t", b"lost", partition=0)
        assert dead.flush(DEADLINE_S) == 0
        alive = confluent(own, "alive")
        alive.begin_transaction()
        alive.produce("t", b"kept", partition=0)
        alive.commit_transaction(DEADLINE_S)
        wait_until(lambda: values(own, "t") == [b"kept"], "the dead client's transaction is aborted")

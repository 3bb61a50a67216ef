"""Transactions of two real clients at the same time, in both transaction versions, and of the Java client on a cluster whose brokers die.
librdkafka uses version 1, the Java client 2 if the broker finalizes it. The client matrix tests each alone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from client_compat.matrix.clients import CLIENTS, ToolchainMissing
from client_compat.matrix.control import Program
from client_compat.matrix.facades import Client, Record
from ottla.testing import InProcessCluster
from tests.support.group_calls import wait_until
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create

DEADLINE_S = 30


@pytest.fixture(scope="module", params=["1", "2"], ids=["transaction.version 1", "transaction.version 2"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("tx") / "data", {"transaction.version": request.param}) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: RunningBroker) -> str:
    """The name of this test's topic."""
    name = "".join(char if char.isalnum() else "-" for char in request.node.name)
    with broker.client() as client:
        create(client, name)
    return name


def confluent_read(broker: RunningBroker, topic: str, count: int) -> list[bytes | None]:
    """Return the first `count` records that a read_committed consumer gets."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "alone", "isolation.level": "read_committed", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, DEADLINE_S)
    assert [message.error() for message in messages if message.error()] == []
    consumer.close()
    return [message.value() for message in messages]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Build the newest Java client's program; skip the test without Java."""
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


def java_transactions(java: Client, topic: str) -> None:
    """Commit two transactions, and abort one between them."""
    producer = java.producer(transactional_id=topic)
    for value in (b"first", b"aborted", b"second"):
        producer.begin()
        producer.send_ok(topic, [Record(value)])
        if value == b"aborted":
            producer.abort()
        else:
            producer.commit()
    producer.close()


def java_read(java: Client, topic: str) -> list[bytes | None]:
    """Return every committed record up to the last stable offset."""
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


def test_java_gets_a_new_epoch_for_each_transaction_only_with_transaction_version_2(
    broker: RunningBroker, topic: str, java: Client
) -> None:
    java_transactions(java, topic)
    epoch = java.admin.describe_transaction(topic)["epoch"]
    assert epoch == (3 if broker.settings["transaction.version"] == "2" else 0)


def test_committed_records_of_one_client_are_read_by_all_others(broker: RunningBroker, topic: str, java: Client) -> None:
    java_transactions(java, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-c", "log_level": 0})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"third", partition=0)
    producer.commit_transaction(DEADLINE_S)
    assert confluent_read(broker, topic, 3) == [b"first", b"second", b"third"]
    assert java_read(java, topic) == [b"first", b"second", b"third"]


def test_java_transactions_continue_when_each_broker_of_a_cluster_dies_during_one(program: Program) -> None:
    """Each broker dies once: that includes the partition's leader, the transaction coordinator and the group coordinator."""
    values = [b"order-%d" % number for number in range(9)]
    with InProcessCluster(settings={"min.insync.replicas": 2}).record() as cluster:
        cluster.topics.create("orders")
        java = Client("java", program, cluster.bootstrap)
        consumer = java.consumer(group="readers", auto_commit=False)
        producer = java.producer(transactional_id="tx")
        for number, value in enumerate(values):
            producer.begin()
            producer.send_ok("orders", [Record(value, partition=0)])
            producer.send_offsets(consumer, {("orders", 0): number + 1})
            if number % 3 == 1:
                victim = number // 3 + 1
                cluster.kill(victim)
                cluster.fence(victim)
            producer.commit()
            if number % 3 == 1:
                cluster.restart(victim)
                cluster.wait_in_sync("orders")
        assert java_read(java, "orders") == values
        # The markers of the group's offsets and of the records are different ones.
        wait_until(lambda: java.admin.group_offsets("readers") == {("orders", 0): len(values)}, "the last offset is committed")
        for client in (producer, consumer):
            client.close()
        cluster.assert_exactly_once(expected=values)

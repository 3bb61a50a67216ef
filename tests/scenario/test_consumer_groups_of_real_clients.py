"""Consumer groups of the new protocol (KIP-848), as librdkafka's users run them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.protocol.client import Client
from tests.support.consumer_calls import describe
from tests.support.group_calls import wait_until
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, produce

PARTITIONS = 4
TIMEOUT_S = 60
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "1500",
}
MEMBER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g", "group.protocol": "consumer", "auto.offset.reset": "earliest"})
consumer.subscribe(["t"])
while True:
    consumer.poll(0.05)
    if consumer.assignment():
        print("has", flush=True)
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data", QUICK) as running:
        with running.client() as client:
            create(client, "t", partitions=PARTITIONS)
            for partition in range(PARTITIONS):
                produce(client, "t", *[f"{partition}-{i}".encode() for i in range(5)], partition=partition)
        yield running


def member(broker: RunningBroker, *topics: str, **changes: object) -> Consumer:
    config = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "g",
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(config | changes)
    consumer.subscribe(list(topics))
    return consumer


def until(condition: Callable[[], bool], what: str, *consumers: Consumer) -> None:
    """Poll all consumers until the condition holds. `what` names it in the error."""

    def look() -> bool:
        for consumer in consumers:
            consumer.poll(0.02)
        return condition()

    wait_until(look, what, TIMEOUT_S)


def parts(consumer: Consumer) -> set[tuple[str, int]]:
    return {(one.topic, one.partition) for one in consumer.assignment()}


def classic(**changes: object) -> dict[str, object]:
    """Return the settings of a member of the classic protocol."""
    return {"group.protocol": "classic", "heartbeat.interval.ms": 100, "session.timeout.ms": 6000, **changes}


def test_every_record_is_read_and_commits_are_kept_over_a_kill_of_the_broker(broker: RunningBroker) -> None:
    consumer = member(broker, "t")
    seen: set[tuple[int, int]] = set()

    def read(count: int) -> bool:
        record = consumer.poll(0.02)
        if record is not None and record.error() is None:
            seen.add((record.partition(), record.offset()))
        return len(seen) == count

    try:
        wait_until(lambda: read(5 * PARTITIONS), "all is read", TIMEOUT_S)
        consumer.commit(offsets=[TopicPartition("t", p, 5) for p in range(PARTITIONS)], asynchronous=False)
        broker.restart(kill=True)
        with broker.client() as client:
            produce(client, "t", b"after", partition=0)
        wait_until(lambda: read(5 * PARTITIONS + 1), "reading goes on", TIMEOUT_S)
        assert [one.offset for one in consumer.committed([TopicPartition("t", p) for p in range(PARTITIONS)], 10)] == [5] * PARTITIONS
    finally:
        consumer.close()


def test_partitions_of_a_killed_member_are_reassigned_after_its_session(broker: RunningBroker) -> None:
    process = subprocess.Popen([sys.executable, "-c", MEMBER, broker.bootstrap], stdout=subprocess.PIPE)
    assert process.stdout is not None
    survivor = None
    try:
        assert process.stdout.readline() == b"has\n"
        survivor = member(broker, "t")
        until(lambda: len(parts(survivor)) == PARTITIONS // 2, "they share", survivor)
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: len(parts(survivor)) == PARTITIONS, "the survivor takes over", survivor)
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        process.stdout.close()
        if survivor is not None:
            survivor.close()


def test_regular_expression_subscription_finds_topics_created_later(broker: RunningBroker) -> None:
    consumer = member(broker, "^[tu].*")
    try:
        until(lambda: len(parts(consumer)) == PARTITIONS, "it has t", consumer)
        with broker.client() as client:
            create(client, "u1", partitions=2)
        until(lambda: {("u1", 0), ("u1", 1)} <= parts(consumer), "it has u1 too", consumer)
    finally:
        consumer.close()


def group_state(client: Client) -> str:
    state: str = describe(client).group_state
    return state


def test_group_migrates_to_the_consumer_protocol_and_back_while_reading(broker: RunningBroker) -> None:
    """Perform the rolling upgrade of KIP-848, and the way back."""
    old, other = member(broker, "t", **classic()), member(broker, "t", **classic())
    new = None
    try:
        until(lambda: len(parts(old)) == len(parts(other)) == PARTITIONS // 2, "the classic members share", old, other)
        other.close()
        new = member(broker, "t")
        until(lambda: len(parts(old)) == len(parts(new)) == PARTITIONS // 2, "one of each protocol share", old, new)
        assert not parts(old) & parts(new)
        with broker.client() as client:
            assert sorted(one.member_type for one in describe(client).members) == [0, 1]
            new.close()
            until(lambda: len(parts(old)) == PARTITIONS, "the classic member has all again", old)
            assert describe(client).error_code == 69, "it is a classic group again"
    finally:
        old.close()

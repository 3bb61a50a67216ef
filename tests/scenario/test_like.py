"""Real clients with a broker that is like an older release: aiokafka and librdkafka, with transactions of the release's version."""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from ottla.broker.testing.in_process import InProcessBroker

RELEASES = ["2.8", "3.3", "3.9", "4.0"]


@pytest.mark.parametrize("release", RELEASES)
async def test_aiokafka_commits_a_transaction(release: str) -> None:
    with InProcessBroker(like=release) as broker:
        broker.record()
        broker.topics.create("orders")
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="t") as producer:
            for value in (b"1", b"2"):
                async with producer.transaction():
                    await producer.send_and_wait("orders", value)
        settings = {"group_id": "g", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        async with AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap, **settings) as consumer:
            assert [(await consumer.getone()).value for _ in range(2)] == [b"1", b"2"]
        broker.assert_exactly_once("orders", expected=[b"1", b"2"], audit=False)


@pytest.mark.parametrize("release", RELEASES)
def test_librdkafka_commits_and_aborts_transactions(release: str) -> None:
    with InProcessBroker(like=release) as broker:
        broker.topics.create("orders")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
        producer.init_transactions(10)
        for value, ends in ((b"1", producer.commit_transaction), (b"2", producer.abort_transaction), (b"3", producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce("orders", value)
            ends(10)
        settings = {"group.id": "g", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
        consumer.subscribe(["orders"])
        found = [consumer.poll(10) for _ in range(2)]
        consumer.close()
        assert [record and record.value() for record in found] == [b"1", b"3"]

"""Real clients on a cluster in the test's own process, under faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from ottla.protocol.client import Client
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.testing import InProcessCluster

VALUES = [b"order-%d" % number for number in range(60)]
Break = Callable[[InProcessCluster, int], None]


def _kill(cluster: InProcessCluster, leader: int) -> None:
    cluster.kill(leader)


def _freeze(cluster: InProcessCluster, leader: int) -> None:
    cluster.pause(leader)
    cluster.wait_until(lambda: cluster.leader_of("orders") not in {leader, -1}, "another broker leads")
    cluster.resume(leader)


def _cut_off(cluster: InProcessCluster, leader: int) -> None:
    cluster.isolate_from_controller(leader)
    cluster.wait_until(lambda: cluster.leader_of("orders") not in {leader, -1}, "another broker leads")
    cluster.heal()


def _move(cluster: InProcessCluster, leader: int) -> None:
    cluster.move_leader("orders", 0, leader % 3 + 1)


@pytest.mark.parametrize("breaks", [_kill, _freeze, _cut_off, _move])
def test_librdkafkas_idempotent_producer_neither_loses_nor_duplicates_when_the_leader_fails(breaks: Break) -> None:
    with InProcessCluster(settings={"min.insync.replicas": 2}).record() as cluster:
        cluster.topics.create("orders")
        producer = Producer({**cluster.client_properties, "enable.idempotence": True, "linger.ms": 0})
        refused: list[object] = []
        for number, value in enumerate(VALUES):
            producer.produce("orders", value, on_delivery=lambda error, _: refused.append(error) if error else None)
            producer.poll(0.001)
            if number == len(VALUES) // 2:
                breaks(cluster, cluster.leader_of("orders"))
        assert producer.flush(30) == 0
        assert refused == []
        for number in set(cluster.brokers) - set(cluster.up):
            cluster.restart(number)
        cluster.wait_in_sync("orders")
        cluster.assert_exactly_once(expected=VALUES)
        consumer = Consumer({**cluster.client_properties, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        read = [message.value() for message in consumer.consume(len(VALUES), 30)]
        consumer.close()
        assert read == VALUES


def coordinator_of(transactional_id: str, cluster: InProcessCluster) -> int:
    with Client("127.0.0.1", cluster.brokers[1].port) as client:
        (found,) = client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])).coordinators
    number: int = found.node_id
    return number


def test_aiokafka_transactions_continue_after_the_coordinators_broker_is_killed() -> None:
    async def work(cluster: InProcessCluster) -> list[bytes]:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="tx") as producer:
            for number, value in enumerate(VALUES[:6]):
                async with producer.transaction():
                    await producer.send_and_wait("orders", value, partition=0)
                if number == 2:
                    await asyncio.to_thread(lambda: cluster.kill(coordinator_of("tx", cluster)))
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        async with consumer:
            return [(await asyncio.wait_for(consumer.getone(), 30)).value for _ in VALUES[:6]]

    with InProcessCluster().record() as cluster:
        cluster.topics.create("orders")
        assert asyncio.run(work(cluster)) == VALUES[:6]
        cluster.assert_exactly_once(expected=VALUES[:6])

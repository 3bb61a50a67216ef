"""A gateway in front of three brokers of Apache Kafka, with real clients; one broker is killed, and returns at another port."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from client_compat.differential.scenarios.common import until
from client_compat.kafka.cluster import Cluster, running
from client_compat.support.ports import free_port
from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from ottla.protocol.schema import Message
from tests.support.apache_kafka import jars_or_skip

HOST = "127.0.0.1"
RECORDS = 300
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    jars_or_skip()
    with running(Cluster(tmp_path_factory.mktemp("cluster"))) as started:
        yield started


@pytest.fixture
def gateway(cluster: Cluster) -> Iterator[InProcessGateway]:
    with InProcessGateway(cluster.bootstrap) as started:
        yield started


def values(word: str) -> set[bytes]:
    return {f"{word}-{number}".encode() for number in range(RECORDS)}


def through_librdkafka(bootstrap: str, topic: str) -> set[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values(topic):
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    return read_with_librdkafka(bootstrap, topic)


def read_with_librdkafka(bootstrap: str, topic: str) -> set[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"group of {topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: set[bytes] = set()
    end = time.monotonic() + TIMEOUT_S
    while len(got) < RECORDS and time.monotonic() < end:
        message = consumer.poll(1)
        if message is not None and not message.error():
            got.add(message.value())
    consumer.close()
    return got


def through_kafka_python(bootstrap: str, topic: str) -> set[bytes]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a deprecated way
        import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    for value in values(topic):
        producer.send(topic, value)
    producer.flush(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=f"group of {topic}")
    got: set[bytes] = set()
    end = time.monotonic() + TIMEOUT_S
    while len(got) < RECORDS and time.monotonic() < end:
        got |= {record.value for records in consumer.poll(1_000).values() for record in records}
    consumer.close()
    return got


def through_aiokafka(bootstrap: str, topic: str) -> set[bytes]:
    async def run() -> set[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"id of {topic}")
        await producer.start()
        async with producer.transaction():
            for value in values(topic):
                await producer.send(topic, value)
        await producer.stop()
        options = {"auto_offset_reset": "earliest", "group_id": f"group of {topic}", "isolation_level": "read_committed"}
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **options)
        await consumer.start()
        got: set[bytes] = set()
        async with asyncio.timeout(TIMEOUT_S):
            while len(got) < RECORDS:
                got |= {record.value for records in (await consumer.getmany(timeout_ms=1_000)).values() for record in records}
        await consumer.stop()
        return got

    return asyncio.run(run())


@pytest.mark.parametrize("client", [through_librdkafka, through_kafka_python, through_aiokafka])
def test_real_clients_produce_and_consume_only_through_the_gateway(
    cluster: Cluster, gateway: InProcessGateway, client: Callable[[str, str], set[bytes]]
) -> None:
    topic = client.__name__
    cluster.create_topic(topic, 6)
    assert client(gateway.bootstrap, topic) == values(topic)
    assert sorted(gateway.call(lambda node: node.book.ports)) == [1, 2, 3]


def test_gateways_responses_equal_the_clusters_except_for_addresses(cluster: Cluster, gateway: InProcessGateway) -> None:
    ports = {broker.process.port: broker.node_id for broker in cluster.brokers}
    requests: list[tuple[Message, int]] = [
        *((MetadataRequest(None), version) for version in range(1, 14)),
        *((FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version) for version in range(7)),
        *((DescribeClusterRequest(), version) for version in range(3)),
        (ApiVersionsRequest("test", "1"), 4),
    ]
    with Client(HOST, gateway.node.ports[0]) as through, Client(HOST, cluster.brokers[0].process.port) as beside:
        for _ in until("the group has a coordinator"):  # the first request creates __consumer_offsets
            if not beside.call(FindCoordinatorRequest(coordinator_keys=["g"]), 6).coordinators[0].error_code:
                break
        for request, version in requests:
            given, expected = through.call(request, version), beside.call(request, version)
            own = {port: node_id for node_id, port in gateway.call(lambda node: node.book.ports).items()}
            assert named(given, own) == named(expected, ports), (request, version)
            assert given == expected


def named(response: object, node_of_port: dict[int, int]) -> list[int]:
    """Return the brokers whose ports are in a response, and replace the ports by their node ids."""
    found = []
    if hasattr(response, "controller_id"):
        response.controller_id = 0  # Kafka names any broker
    for entry in [response, *getattr(response, "brokers", ()), *getattr(response, "coordinators", ())]:
        if getattr(entry, "port", 0):
            entry.port = node_of_port[entry.port]  # type: ignore[attr-defined] # it has a port
            found.append(entry.port)
    return sorted(found)


def test_gateway_follows_a_broker_that_restarts_on_another_port(cluster: Cluster, gateway: InProcessGateway) -> None:
    cluster.create_topic("moving", 3)
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "enable.idempotence": True})
    sent = sorted(values("moving"))
    for value in sent[: RECORDS // 3]:
        producer.produce("moving", value)
    assert producer.flush(TIMEOUT_S) == 0
    port = gateway.call(lambda node: node.book.ports[2])
    moved = cluster.broker(2)
    moved.process.kill()
    for value in sent[RECORDS // 3 : 2 * RECORDS // 3]:
        producer.produce("moving", value)
    assert producer.flush(TIMEOUT_S) == 0
    before, moved.process.port = moved.process.port, free_port()
    moved.settings = {name: value.replace(f":{before}", f":{moved.process.port}") for name, value in moved.settings.items()}
    moved.write_properties()
    moved.start()
    cluster.settle()
    for value in sent[2 * RECORDS // 3 :]:
        producer.produce("moving", value)
    assert producer.flush(TIMEOUT_S) == 0
    assert read_with_librdkafka(gateway.bootstrap, "moving") == set(sent)
    assert gateway.call(lambda node: node.book.ports[2]) == port
    assert gateway.call(lambda node: node.book.candidates(2)) == [(HOST, moved.process.port)]

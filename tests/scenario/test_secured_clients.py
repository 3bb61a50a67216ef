"""Real clients with the properties that Ottla prints for them: TLS, certificates, SCRAM and PLAIN users, and re-authentication during
traffic. The client matrix tests the rest of security (`security`, `rights`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from client_compat.kafka.tools import Tools
from ottla.broker.security.client_properties import as_lines
from ottla.broker.testing.in_process import InProcessBroker
from tests.support.apache_kafka import jars_or_skip
from tests.support.certificates import Certificates
from tests.support.kafka_tools import good

USERS = {"alice": "s3cret; and more", "bob": "b"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
COUNT = 20
TIMEOUT_S = 30


@pytest.fixture(scope="module", params=[True, False], ids=["TLS", "no TLS"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessBroker]:
    with InProcessBroker(tmp_path_factory.mktemp("secured") / "data", tls=request.param, users=USERS) as running:
        yield running


def expected() -> list[bytes]:
    return [str(number).encode() for number in range(COUNT)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_produces_and_consumes_with_the_printed_properties(broker: InProcessBroker, mechanism: str) -> None:
    topic = broker.topics.create(f"rd-{mechanism}")
    properties = broker.client_properties("librdkafka", "alice", mechanism)
    producer = Producer(properties)
    for value in expected():
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**properties, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert taken(consumer) == expected()
    consumer.close()


def taken(consumer: Consumer) -> list[bytes | None]:
    found: list[bytes | None] = []
    until = time.monotonic() + TIMEOUT_S
    while len(found) < COUNT and time.monotonic() < until:
        found += [message.value() for message in consumer.consume(COUNT, 0.5) if message.error() is None]
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_produces_and_consumes_with_the_printed_properties(broker: InProcessBroker, mechanism: str) -> None:
    topic = broker.topics.create(f"aio-{mechanism}")
    properties = broker.client_properties("aiokafka", "bob", mechanism)
    async with AIOKafkaProducer(**properties) as producer:
        for value in expected():
            await producer.send_and_wait(topic, value)
    async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **properties) as consumer:
        assert [(await asyncio.wait_for(anext(consumer), TIMEOUT_S)).value for _ in range(COUNT)] == expected()


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_produces_and_consumes_with_the_printed_properties(broker: InProcessBroker, mechanism: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    topic = broker.topics.create(f"kp-{mechanism}")
    properties = broker.client_properties("kafka-python", "alice", mechanism)
    producer = KafkaProducer(**properties)
    for value in expected():
        producer.send(topic, value)
    producer.flush(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1000, **properties)
    assert [next(consumer).value for _ in range(COUNT)] == expected()
    consumer.close()


def test_session_is_reauthenticated_while_records_flow(tmp_path: Path) -> None:
    settings = {"connections.max.reauth.ms": "1500"}
    with InProcessBroker(tmp_path / "data", settings, tls=True, users=USERS) as broker:
        topic = broker.topics.create("t")
        failed: list[Any] = []
        producer = Producer({**broker.client_properties("librdkafka"), "linger.ms": 0, "retries": 0, "error_cb": failed.append})
        until, sent = time.monotonic() + 5, 0
        while time.monotonic() < until:
            producer.produce(topic, str(sent).encode(), on_delivery=lambda error, _: failed.append(error) if error else None)
            sent += 1
            producer.poll(0.01)
        assert producer.flush(TIMEOUT_S) == 0
        assert failed == []
        assert broker.topics.end_offset(topic) == sent > 50


def test_librdkafka_authenticates_only_with_a_client_certificate(tmp_path: Path) -> None:
    made = Certificates(tmp_path / "tls")
    given = {
        **made.pem_settings(),
        "listeners": "S://127.0.0.1:0",
        "listener.security.protocol.map": "S:SSL",
        "ssl.client.auth": "required",
    }
    with InProcessBroker(tmp_path / "data", given) as broker:
        common = {"bootstrap.servers": broker.bootstrap, "security.protocol": "SSL", "ssl.ca.location": str(made.ca)}
        own = {"ssl.certificate.location": str(made.client), "ssl.key.location": str(made.client)}
        assert Producer({**common, **own}).list_topics(timeout=TIMEOUT_S).brokers
        errors: list[str] = []
        producer = Producer({**common, "error_cb": lambda error: errors.append(error.str())})
        until = time.monotonic() + TIMEOUT_S
        while not any("certificate required" in error for error in errors) and time.monotonic() < until:
            producer.poll(0.1)
        assert any("certificate required" in error for error in errors), errors


def test_kafkas_tools_authenticate_and_create_users(broker: InProcessBroker, tmp_path: Path) -> None:
    jars_or_skip()
    tools = Tools()

    def run(properties: dict[str, Any], tool: str, *arguments: str) -> str:
        file = tmp_path / "client.properties"
        file.write_text("\n".join(as_lines(properties)))
        return good(tools.run(tool, "--bootstrap-server", broker.bootstrap, "--command-config", str(file), *arguments))

    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        run(broker.client_properties("java", "alice", mechanism), "kafka-topics", "--create", "--topic", f"by-java-{mechanism}")
    change = ("--alter", "--entity-type", "users", "--entity-name", "carol", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=c!]")
    run(broker.client_properties("java"), "kafka-configs", *change)
    carol = broker.client_properties("java")
    carol["sasl.jaas.config"] = carol["sasl.jaas.config"].replace("alice", "carol").replace(USERS["alice"], "c!")
    assert "by-java-PLAIN" in run(carol, "kafka-topics", "--list")

"""The three Python clients, unmodified, produce and consume: each alone, each what another wrote, and in groups."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from tests.support.running_broker import RunningBroker

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas with importlib.resources.read_text
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")

VALUES = [f"value-{number}".encode() for number in range(200)]
CODECS = ["gzip", "snappy", "lz4", "zstd"]
NEEDS_MORE = [("kafka-python", "snappy")]
"""kafka-python wants another library for it."""

DEADLINE_S = 30


@pytest.fixture(autouse=True)
def _kafka_python_leaves_its_wake_up_sockets_open() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("smoke") / "data", {"num.partitions": "3"}) as running:
        yield running


def produce_with_aiokafka(bootstrap: str, topic: str, codec: str | None = None) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, compression_type=codec)
        await producer.start()
        try:
            await asyncio.gather(*[await producer.send(topic, value, key=value) for value in VALUES])
        finally:
            await producer.stop()

    asyncio.run(run())


def produce_with_confluent(bootstrap: str, topic: str, codec: str | None = None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec or "none"})
    errors: list[object] = []
    for value in VALUES:
        producer.produce(topic, value, value, on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(DEADLINE_S) == 0
    assert errors == []


def produce_with_kafka_python(bootstrap: str, topic: str, codec: str | None = None) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, compression_type=codec)
    sent = [producer.send(topic, value, value) for value in VALUES]
    for future in sent:
        future.get(DEADLINE_S)
    producer.close()


def consume_with_aiokafka(bootstrap: str, topic: str, group: str | None) -> list[bytes]:
    async def run() -> list[bytes]:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")
        await consumer.start()
        found: list[bytes] = []
        try:
            async with asyncio.timeout(DEADLINE_S):
                while len(found) < len(VALUES):
                    found.append((await consumer.getone()).value)
        finally:
            await consumer.stop()
        return found

    return asyncio.run(run())


def consume_with_confluent(bootstrap: str, topic: str, group: str | None) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group or "alone", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None
            found.append(message.value())
    consumer.close()
    return found


def consume_with_kafka_python(bootstrap: str, topic: str, group: str | None) -> list[bytes]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", consumer_timeout_ms=DEADLINE_S * 1000
    )
    found: list[bytes] = []
    for message in consumer:
        found.append(message.value)
        if len(found) == len(VALUES):
            break
    consumer.close()
    return found


PRODUCERS: dict[str, Callable[[str, str, str | None], None]] = {
    "aiokafka": produce_with_aiokafka,
    "confluent-kafka": produce_with_confluent,
    "kafka-python": produce_with_kafka_python,
}
CONSUMERS: dict[str, Callable[[str, str, str | None], list[bytes]]] = {
    "aiokafka": consume_with_aiokafka,
    "confluent-kafka": consume_with_confluent,
    "kafka-python": consume_with_kafka_python,
}


@pytest.mark.parametrize(("producer", "consumer"), list(product(PRODUCERS, CONSUMERS)))
def test_what_one_client_produces_idempotently_a_group_of_any_other_reads(broker: RunningBroker, producer: str, consumer: str) -> None:
    topic = f"from-{producer}-to-{consumer}"
    PRODUCERS[producer](broker.bootstrap, topic, None)
    assert sorted(CONSUMERS[consumer](broker.bootstrap, topic, f"group-{topic}")) == sorted(VALUES)


@pytest.mark.parametrize(("producer", "codec"), [pair for pair in product(PRODUCERS, CODECS) if pair not in NEEDS_MORE])
def test_every_codec_of_every_client_passes(broker: RunningBroker, producer: str, codec: str) -> None:
    topic = f"{codec}-{producer}"
    PRODUCERS[producer](broker.bootstrap, topic, codec)
    assert sorted(consume_with_aiokafka(broker.bootstrap, topic, None)) == sorted(VALUES)


def test_a_group_goes_on_behind_its_committed_offsets_after_a_kill(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as own:
        produce_with_confluent(own.bootstrap, "t")
        assert len(consume_with_kafka_python(own.bootstrap, "t", "g")) == len(VALUES)
        own.restart(kill=True)
        produce_with_confluent(own.bootstrap, "t")
        again = consume_with_kafka_python(own.bootstrap, "t", "g")
        assert len(again) == len(VALUES)
        assert own.call(lambda running: running.services.partitions.get("t", 0).log.log_end_offset) == 2 * len(VALUES)

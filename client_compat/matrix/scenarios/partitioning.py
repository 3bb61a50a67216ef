"""The choice of a record's partition (default, named and custom partitioners), serializers and interceptors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from client_compat.matrix.clients import library_of
from client_compat.matrix.control import Unsupported
from client_compat.matrix.facades import Record, Sent, places
from client_compat.matrix.murmur2 import partition_of
from client_compat.matrix.scenario import ScenarioContext, expect, same, scenario

PARTITIONS = 7
KEYS = [b"21", b"foobar", b"a-little-bit-long-string", "schlüssel".encode(), bytes(range(256)), b"x", *(b"key-%d" % n for n in range(50))]

OTHER_DEFAULT: Mapping[str, str] = {
    "confluent-kafka": "librdkafka's default is consistent_random, by CRC32",
    "confluent-kafka-javascript": "librdkafka's default is consistent_random, by CRC32",
    "rdkafka": "librdkafka's default is consistent_random, by CRC32",
    "kcat": "librdkafka's default is consistent_random, by CRC32",
    "sarama": "its default is a hash by FNV-1a",
    "kafka-go": "its default is round robin, whatever the key",
}
"""Clients whose default partitioner differs from the Java client's by design, each with the reason."""
KEYLESS_DEFAULT = frozenset({"kafka-go"})


def _placed(context: ScenarioContext, sent: list[Sent], topic: str) -> dict[bytes, int]:
    """Return the partition of each key according to the acknowledgements. Raises `ScenarioFailed` if the log has the keys in other
    partitions."""
    stored = {record.key: index for index in range(PARTITIONS) for record in context.truth.records(topic, index)}
    acknowledged = {key: one.partition for key, one in zip(KEYS, places(sent), strict=True)}
    same(acknowledged, stored, "partitions that were acknowledged, against the log")
    return acknowledged


def _send_keys(context: ScenarioContext, partitioner: str) -> dict[bytes, int]:
    topic = context.topic(PARTITIONS)
    producer = context.producer(acks="all", partitioner="murmur2") if partitioner == "murmur2" else context.producer(acks="all")
    sent = producer.send_ok(topic, [Record(b"v", key) for key in KEYS])
    producer.close()
    return _placed(context, sent, topic)


JAVA = {key: partition_of(key, PARTITIONS) for key in KEYS}


@scenario("The client's default partitioner chooses the same partition as the Java client's for every key, by murmur2.", quick=True)
def default_partitioner_as_javas(context: ScenarioContext) -> None:
    if other := OTHER_DEFAULT.get(library_of(context.client_name)):
        raise Unsupported(f"{context.client_name}: {other}")
    same(_send_keys(context, "default"), JAVA, "partitions by key")


@scenario("The client's murmur2 partitioner, selected by name, chooses the same partition as the Java client's for every key.")
def murmur2_partitioner(context: ScenarioContext) -> None:
    same(_send_keys(context, "murmur2"), JAVA, "partitions by key")


@scenario("The client's default partitioner always chooses the same partition for a key, and several partitions for different keys.")
def same_key_same_partition(context: ScenarioContext) -> None:
    if context.client_name in KEYLESS_DEFAULT:
        raise Unsupported(f"{context.client_name}: {OTHER_DEFAULT[context.client_name]}")
    first, second = (_send_keys(context, "default") for _ in range(2))
    same(second, first, "partitions by key, in another topic of as many")
    expect(len(set(first.values())) > PARTITIONS // 2, f"{len(KEYS)} keys went to {len(set(first.values()))} of {PARTITIONS} partitions")


@scenario("A custom partitioner chooses the partition.")
def custom_partitioner(context: ScenarioContext) -> None:
    topic = context.topic(PARTITIONS)
    producer = context.producer(acks="all", partitioner="last")
    sent = producer.send_ok(topic, [Record(b"v", key) for key in KEYS])
    producer.close()
    same({one.partition for one in sent}, {PARTITIONS - 1}, "partitions")
    same([record.key for record in context.truth.records(topic, PARTITIONS - 1)], list(KEYS), "keys in the last partition")


@scenario("A custom serializer produces the stored bytes.")
def serializer(context: ScenarioContext) -> None:
    topic, document = context.topic(), {"z": [1, 2], "a": {"y": None, "b": "é"}}
    producer = context.producer(acks="all", serializer="json")
    producer.send_ok(topic, [Record(json.dumps(document, indent=2).encode(), partition=0)])
    producer.close()
    (value,) = context.truth.values(topic)
    same(json.loads(value or b"null"), document, "the stored document")
    compact = {
        json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only).encode() for ascii_only in (True, False)
    }
    expect(value in compact, f"it is stored as {value!r}")


@scenario("An interceptor gets every record before it is sent, and its changes are stored.")
def interceptor(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(acks="all", interceptor=True)
    producer.send_ok(topic, [Record(b"0", partition=0), Record(b"1", headers=(("own", b"h"),), partition=0)])
    producer.close()
    found = [tuple(record.headers) for record in context.truth.records(topic)]
    same(found, [(("intercepted", b"1"),), (("own", b"h"), ("intercepted", b"1"))], "stored headers")

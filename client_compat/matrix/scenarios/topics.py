"""Topics that are created, deleted and changed while a client uses them."""

from __future__ import annotations

from client_compat.matrix.control import ClientError
from client_compat.matrix.facades import Record, numbered
from client_compat.matrix.scenario import ScenarioContext, expect, poll_until, same, scenario
from client_compat.matrix.truth import TruthFailed

NO_AUTO_CREATION = {"auto.create.topics.enable": "false"}
"""The broker setting that disables topic creation by Metadata requests. Otherwise a client that requests the metadata of a topic during its
deletion would create the topic again."""
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"


@scenario("Sending to a topic that does not exist creates it if the broker's auto.create.topics.enable is true.", quick=True)
def auto_creation(context: ScenarioContext) -> None:
    topic = context.name("created")
    producer = context.producer(acks="all")
    producer.send_ok(topic, [Record(b"first"), Record(b"second")], mode="sync")
    producer.close()
    context.truth.wait_until_led(topic)
    same(context.truth.values(topic), [b"first", b"second"], "the log's values")


@scenario(
    "With auto.create.topics.enable=false, sending to a topic that does not exist fails, and no topic appears.",
    settings=NO_AUTO_CREATION,
)
def no_auto_creation(context: ScenarioContext) -> None:
    topic = context.name("absent")
    producer = context.producer(acks="all", timeout_ms=8_000)
    try:
        (sent,) = producer.send(topic, [Record(b"v")], mode="sync", timeout_ms=10_000)
        expect(sent.error is not None, "the record was acknowledged")
    except ClientError as error:
        expect(bool(error.code), "the error has no code")
    try:
        context.truth.end_offset(topic)
    except TruthFailed as error:
        expect(UNKNOWN in str(error), str(error))
        return
    expect(False, "the topic is there")


@scenario("A producer continues when its topic is deleted and recreated with another id and more partitions.", settings=NO_AUTO_CREATION)
def topic_made_again(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(acks="all")
    producer.send_ok(topic, numbered(3, partition=0), mode="sync")
    context.truth.delete_topic(topic)
    context.truth.create_topic(topic, 2)
    producer.send_ok(topic, numbered(3, partition=0, start=3), mode="sync", timeout_ms=25_000)
    producer.close()
    same(context.truth.values(topic), [b"3", b"4", b"5"], "the new log's values")


@scenario("A consumer gets the records of a deleted and recreated topic from its beginning.", settings=NO_AUTO_CREATION)
def topic_made_again_under_a_consumer(context: ScenarioContext) -> None:
    topic = context.topic()
    context.truth.write_values(topic, [b"old-%d" % n for n in range(5)])
    consumer = context.consumer(reset="earliest")
    consumer.assign([(topic, 0)])
    poll_until(consumer, 5)
    context.truth.delete_topic(topic)
    context.truth.create_topic(topic)
    context.truth.write_values(topic, [b"new-%d" % n for n in range(3)])
    same([one.value for one in poll_until(consumer, 3, timeout_ms=25_000)], [b"new-0", b"new-1", b"new-2"], "values of the new topic")
    consumer.close()


@scenario("A topic's name may have all characters that Kafka allows, and a length of 249.")
def topic_names(context: ScenarioContext) -> None:
    for name in (f"{context.name()}.A_z-09", context.name("long").ljust(249, "x")):
        context.truth.create_topic(name)
        producer = context.producer(acks="all")
        producer.send_ok(name, [Record(b"v", partition=0)])
        producer.close()
        same([one.value for one in context.read(name, 1)], [b"v"], f"values of {name[:40]}")

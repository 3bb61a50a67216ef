"""Authorization from the client's point of view: denied requests, and permissions that are revoked and granted again during work.

Rules:
- Each scenario creates its own users.
- The client's report of a denial is recorded, also if it reports nothing, and has to be the same on Apache Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from client_compat.matrix.control import ClientError
from client_compat.matrix.facades import Client, Consumer, Producer, numbered
from client_compat.matrix.rights import Operation, Resource, Right
from client_compat.matrix.scenario import ScenarioContext, expect, poll_until, same
from client_compat.matrix.scenarios.security import COUNT, PASSWORD, scenario, user

TIMEOUT_S = 20.0
"""How long, in seconds, a change of permissions may take to show. Clients may cache an error: librdkafka retries after
`topic.metadata.refresh.interval` or its backoff."""
POLL_MS = 3_000
FETCH_MS = 6_000
"""How long a client polls after a change of permissions, in ms. A Fetch that was authorized before the change may still be pending, but no
client here lets a Fetch wait longer."""


def _guest(context: ScenarioContext, name: str) -> Client:
    return context.at_listener("LOGIN", mechanism="SCRAM-SHA-256", user=name, password=PASSWORD)


def _said(call: Callable[[], object]) -> ClientError | None:
    try:
        call()
    except ClientError as error:
        return error
    return None


def _sent(producer: Producer, topic: str, timeout_ms: int = 10_000) -> ClientError | None:
    """Send one record; return the error that the client raised or reported, None if it succeeded."""
    try:
        (result,) = producer.send(topic, numbered(1, partition=0), mode="sync", timeout_ms=timeout_ms)
    except ClientError as error:
        return error
    return result.error


def _until_refused(what: str, ask: Callable[[], ClientError | None], *, refused: bool) -> ClientError | None:
    """Repeat `ask` until it fails, or, without `refused`, until it succeeds; return the last error. Raises `ScenarioFailed` after TIMEOUT_S
    seconds."""
    until = time.monotonic() + TIMEOUT_S
    while True:
        error = ask()
        if (error is not None) == refused:
            return error
        expect(time.monotonic() < until, f"{what}: {error or 'no error'}, after {TIMEOUT_S:.0f} s")


def _refused_write(context: ScenarioContext, name: str, topic: str) -> None:
    """Let user `name`, who may write only to another topic, write to `topic`; record the client's error, and check that nothing is
    stored."""
    context.rights.grant(Right(name, Operation.WRITE, Resource.TOPIC, context.topic()))
    producer = _guest(context, name).producer()
    context.note(_sent(producer, topic))
    producer.close()
    same(context.truth.end_offset(topic), 0, "the log's end")


@scenario("A user without WRITE on a topic gets an error that names the topic, and nothing is stored.", quick=True)
def write_denied(context: ScenarioContext) -> None:
    name, topic = user(context), context.topic()
    context.rights.grant(Right(name, Operation.READ, Resource.TOPIC, topic))
    _refused_write(context, name, topic)


@scenario("A user without DESCRIBE on a topic gets an error that names the topic.")
def unseen_topic(context: ScenarioContext) -> None:
    _refused_write(context, user(context), context.topic())


@scenario("A user without READ on a topic gets an error and no records.")
def read_denied(context: ScenarioContext) -> None:
    name, topic = user(context), context.topic()
    context.truth.write_values(topic, [b"not for all"])
    context.rights.grant(Right(name, Operation.WRITE, Resource.TOPIC, topic))
    context.rights.grant(Right(name, Operation.READ, Resource.GROUP, "*"))
    consumer = _guest(context, name).consumer(reset="earliest")
    taken: list[object] = []

    def read() -> None:
        consumer.assign([(topic, 0)])
        taken.extend(consumer.poll(1, POLL_MS))

    context.note(_said(read))
    _said(consumer.close)
    same(taken, [], "what was read")


@scenario("A user without READ on a group gets an error.")
def group_denied(context: ScenarioContext) -> None:
    name, topic = user(context), context.topic()
    context.rights.grant(Right(name, Operation.READ, Resource.TOPIC, topic))
    consumer = _guest(context, name).consumer(group=context.name("group"), reset="earliest")

    def read() -> None:
        consumer.subscribe([topic])
        consumer.poll(1, POLL_MS)

    context.note(_said(read))
    _said(consumer.close)


@scenario("A user without WRITE on a transactional id gets an error before anything is written.")
def transactional_id_denied(context: ScenarioContext) -> None:
    name, topic = user(context), context.topic()
    context.rights.grant(Right(name, Operation.WRITE, Resource.TOPIC, topic))

    def begin() -> None:
        producer = _guest(context, name).producer(transactional_id=context.name("tx"), timeout_ms=10_000)
        producer.begin()

    context.note(_said(begin))
    same(context.truth.end_offset(topic), 0, "the log's end")


@scenario("A producer's WRITE permission is removed and restored: its records are rejected in between, and then it continues.", quick=True)
def write_taken_away_and_given_back(context: ScenarioContext) -> None:
    name, topic = user(context), context.topic()
    right = Right(name, Operation.WRITE, Resource.TOPIC, topic)
    context.rights.grant(right)
    producer = _guest(context, name).producer()
    same(_sent(producer, topic), None, "the first record's error")
    context.rights.revoke(right)
    context.note(_until_refused("sent without the right", lambda: _sent(producer, topic), refused=True), "without")
    refused_at = context.truth.end_offset(topic)
    same(_sent(producer, topic) is None, False, "whether it is sent without the right")
    same(context.truth.end_offset(topic), refused_at, "the log's end")
    context.rights.grant(right)
    context.note(_until_refused("sent with the right again", lambda: _sent(producer, topic), refused=False), "again")
    producer.close()
    expect(context.truth.end_offset(topic) > refused_at, "nothing more is stored")


@scenario("A consumer's READ permission is removed and restored: it gets nothing in between, and then everything.")
def read_taken_away_and_given_back(context: ScenarioContext) -> None:
    name, topic = user(context), context.topic()
    right = Right(name, Operation.READ, Resource.TOPIC, topic)
    context.rights.grant(right)
    context.rights.grant(Right(name, Operation.READ, Resource.GROUP, "*"))
    context.truth.write_values(topic, [b"before"])
    consumer = _guest(context, name).consumer(reset="earliest")
    consumer.assign([(topic, 0)])
    same([one.value for one in poll_until(consumer, 1)], [b"before"], "what was read with the right")
    context.rights.revoke(right)
    first = _said(lambda: consumer.poll(1, FETCH_MS))
    context.truth.write_values(topic, [str(number).encode() for number in range(COUNT)])
    taken: list[bytes | None] = []
    second = _said(lambda: _read(consumer, taken, POLL_MS))
    context.note(first or second, "without")
    same(taken, [], "what was read without the right")
    context.rights.grant(right)
    until = time.monotonic() + TIMEOUT_S
    ended: ClientError | None = None
    while len(taken) < COUNT and time.monotonic() < until:
        ended = _said(lambda: _read(consumer, taken, POLL_MS))
    context.found.append("goes on" if len(taken) >= COUNT else f"does not go on by itself: {ended.code if ended else 'no error'}")
    same(taken, [str(number).encode() for number in range(COUNT)][: len(taken)], "what was read with the right again")
    _said(consumer.close)


def _read(consumer: Consumer, taken: list[bytes | None], timeout_ms: int) -> None:
    taken += [one.value for one in consumer.poll(COUNT, timeout_ms)]

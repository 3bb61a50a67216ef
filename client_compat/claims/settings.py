"""Claims (common statements) about settings: what clients enforce, what acks means, what the defaults are. In docs/exactly-once.md: 11, 22,
25, 26."""

from __future__ import annotations

from confluent_kafka import Message

from client_compat.claims.claim import CheckResult, claim
from client_compat.claims.environment import ClaimEnvironment
from client_compat.claims.identity import CLIENT
from client_compat.claims.retries import VALUE, lose_ack
from client_compat.clients.options import ProducerOptions
from client_compat.matrix.control import ClientError, Unsupported
from client_compat.matrix.facades import Record
from client_compat.support.brokers import HOST
from client_compat.support.stage import READ_S
from ottla.protocol.client import Client as Wire
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records.record import SimpleRecord, build_batch

TAUGHT_DEFAULTS = {"batch.size": "16384", "linger.ms": "0", "buffer.memory": "33554432"}
WRONG: dict[str, ProducerOptions] = {
    "acks=1": {"idempotent": True, "acks": "1"},
    "retries=0": {"idempotent": True, "retries": 0},
    "six in flight": {"idempotent": True, "max_in_flight": 6},
}
MESSAGE_CHARS = 90
NO_ACK_S = 0.3
"""How long to wait, in seconds, before an acknowledgement counts as not sent."""


@claim(11, "Idempotence needs acks=all, retries, and at most five in flight")
def enforced(environment: ClaimEnvironment) -> CheckResult:
    evidence: list[str] = []
    taken: list[str] = []
    for name in environment.names:
        for what, options in WRONG.items():
            try:
                environment.client(name).producer(**options).close()
                taken.append(f"{name} {what}")
                evidence.append(f"{name}, {what}: taken")
            except ClientError as error:
                evidence.append(f"{name}, {what}: refused, {(error.message or error.code)[:MESSAGE_CHARS]}")
            except Unsupported:
                evidence.append(f"{name}, {what}: it has no such setting")
    happened = "each client refuses what would break it, before it sends anything" if not taken else f"taken: {', '.join(taken)}"
    return CheckResult(not taken, happened, evidence)


@claim(22, "acks=0 answers at once, acks=1 when the leader wrote, acks=all when every in-sync replica wrote")
def acks(environment: ClaimEnvironment) -> CheckResult:
    evidence, held = [], True
    for setting in ("0", "1", "all"):
        early, stored, offsets = _held_write(environment, setting)
        at_once = setting == "0"
        held = held and stored == 0 and early == ([None] if at_once else []) and offsets == ([None] if at_once else [0])
        before = "told “delivered”, without an offset" if early else "not told yet"
        evidence.append(f"acks={setting}: before the broker wrote it, {before}; in the end, offset {offsets[0]}")
    closed = _acks_0_error(environment)
    happened = "acks=0 has no answer at all, and an error closes the connection. On one broker the leader is every in-sync replica"
    return CheckResult(
        held and closed, happened, [*evidence, f"acks=0 to a partition that is not there: connection {'closed' if closed else 'open'}"]
    )


def _held_write(environment: ClaimEnvironment, setting: str) -> tuple[list[int | None], int, list[int | None]]:
    """Write one record while a fault rule holds the Produce request at the broker. `setting` is the producer's acks. Return three results:
    the offsets that the client got while the request was held, the number of records stored at that time, and the offsets that the client
    had got in the end."""
    topic = environment.topic()
    offsets: list[int | None] = []

    def on_delivery(_: object, message: Message) -> None:
        offsets.append(message.offset())

    producer = environment.stage.producer(acks=setting, enable_idempotence=False)
    rule = environment.stage.admin.add(f"hold-request:api=Produce,topic={topic},times=1,name={topic}")
    producer.produce(topic, b"x", partition=0, on_delivery=on_delivery)
    producer.poll(0)
    environment.stage.admin.wait_held()
    producer.flush(READ_S if setting == "0" else NO_ACK_S)
    early, stored = list(offsets), len(environment.truth.records(topic))
    environment.stage.admin.release(rule)
    producer.flush(READ_S)
    return early, stored, offsets


def _acks_0_error(environment: ClaimEnvironment) -> bool:
    """Return whether the broker closes the connection after a Produce request with acks=0 that fails."""
    batch = build_batch([SimpleRecord(None, b"x", 1)])
    data = [TopicProduceData(environment.topic(), partition_data=[PartitionProduceData(99, batch)])]
    with Wire(HOST, environment.stage.broker.port) as wire:
        wire.call(ProduceRequest(acks=0, timeout_ms=1_000, topic_data=data), 9)
        try:
            wire.read_frame()
        except ConnectionError:
            return True
    return False


@claim(25, "Defaults: batch.size 16 KB, linger.ms 0, buffer.memory 32 MB", right=False, java=True)
def defaults(environment: ClaimEnvironment) -> CheckResult:
    found = {name: environment.client(name).program.call("producer.defaults")["defaults"] for name in ("java-2.8", "java")}
    keys = (*TAUGHT_DEFAULTS, "enable.idempotence", "acks")
    evidence = [
        f"{name} {environment.pool.ready[name].version}: " + ", ".join(f"{key}={values[key]}" for key in keys)
        for name, values in found.items()
    ]
    old, new = ({key: values[key] for key in TAUGHT_DEFAULTS} == TAUGHT_DEFAULTS for values in found.values())
    if not old:
        raise ValueError(f"java-2.8 has other defaults: {evidence}")
    return CheckResult(new, "right until Java 3.9; since 4.0 linger.ms is 5", evidence)


@claim(26, "At-most-once is retries off; at-least-once is the default; exactly-once is idempotence plus transactions", right=False)
def delivery(environment: ClaimEnvironment) -> CheckResult:
    topic = environment.topic()
    environment.stage.admin.add(f"drop-request:api=Produce,topic={topic},times=1,name={topic}")
    producer = environment.client(CLIENT).producer(idempotent=False, acks="all", retries=0)
    (sent,) = producer.send(topic, [Record(VALUE.encode(), partition=0)])
    producer.close()
    lost = sent.error is not None and environment.stage.stored(topic) == []
    evidence = [f"{CLIENT}, retries=0, a lost request: stored 0 times, told {sent.error.code if sent.error else 'delivered'}"]
    copies = {}
    for name in environment.names:
        stored, outcome, _ = lose_ack(environment, name)
        copies[name] = len(stored)
        evidence.append(f"{name}, its defaults, a lost ack: stored {len(stored)} times, told {outcome}")
    once = [name for name, count in copies.items() if count == 1]
    happened = f"retries off loses a record; by default a lost ack doubles it, but not with {' and '.join(once)}: idempotent by default"
    return CheckResult(not (lost and once), happened, evidence)

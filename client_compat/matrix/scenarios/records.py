"""Parts of a record, written and read: headers, nulls, empty bytes, both timestamp types."""

from __future__ import annotations

import time

from client_compat.matrix.facades import Header, Record
from client_compat.matrix.scenario import ScenarioContext, expect, same, scenario
from ottla.protocol.records.record import SimpleRecord

SECOND_MS = 1_000
HEADERS: tuple[Header, ...] = (("first", b"1"), ("same", b"a"), ("same", b"b"), ("naïve ✓", "wörter".encode()), ("empty", b""))
WITH_NULL: tuple[Header, ...] = (("null", None), ("last", b"\x00\xff"))


def _now() -> int:
    return int(time.time() * 1000)


def _both_ways(context: ScenarioContext, records: list[Record]) -> None:
    """Let the client under test write the records, and check them in the log. Then write the same records with Ottla's own code, and check
    how the client reads them."""
    written = context.topic()
    producer = context.producer(acks="all")
    producer.send_ok(written, [Record(one.value, one.key, one.headers, 0) for one in records])
    producer.close()
    wanted = [(one.key, one.value, one.headers) for one in records]
    stored = [(one.key, one.value, one.headers) for one in context.truth.records(written)]
    same(stored, wanted, "stored records (key, value, headers)")
    topic = context.topic()
    context.truth.write(topic, [SimpleRecord(one.key, one.value, _now(), one.headers) for one in records])
    taken = context.read(topic, len(records))
    same([(one.key, one.value, one.headers) for one in taken], wanted, "consumed records (key, value, headers)")


@scenario("Headers keep their order, their names in any alphabet, repeated names and empty values.", quick=True)
def headers(context: ScenarioContext) -> None:
    _both_ways(context, [Record(b"v", b"k", HEADERS)])


@scenario("A header's null value stays null.")
def null_header(context: ScenarioContext) -> None:
    _both_ways(context, [Record(b"v", b"k", WITH_NULL)])


@scenario("A key may be null or empty, and stays unchanged.", quick=True)
def null_and_empty_keys(context: ScenarioContext) -> None:
    _both_ways(context, [Record(b"no key", None), Record(b"empty key", b""), Record(b"a key", b"k")])


@scenario("A value may be null, as in tombstones, and stays null.", quick=True)
def null_values(context: ScenarioContext) -> None:
    _both_ways(context, [Record(None, b"gone"), Record(b"v", b"k")])


@scenario("A value may be empty, and does not become null.")
def empty_values(context: ScenarioContext) -> None:
    _both_ways(context, [Record(b"", b"k"), Record(b"v", b"k")])


@scenario("Keys and values may contain every byte from 0 to 255.")
def binary(context: ScenarioContext) -> None:
    every = bytes(range(256))
    _both_ways(context, [Record(every, every[::-1]), Record(b"\xc3\x28", b"\xff\xfe")])


@scenario("A record keeps the sender's timestamp, and consumers get it with the type CreateTime.", quick=True)
def create_time(context: ScenarioContext) -> None:
    topic, at = context.topic(), _now() - 5 * SECOND_MS
    producer = context.producer(acks="all")
    producer.send_ok(topic, [Record(b"0", partition=0, timestamp=at), Record(b"1", partition=0, timestamp=at + 1_234)])
    producer.close()
    same([one.timestamp for one in context.truth.records(topic)], [at, at + 1_234], "stored timestamps")
    taken = context.read(topic, 2)
    same([one.timestamp for one in taken], [at, at + 1_234], "consumed timestamps")
    expect({one.timestamp_type for one in taken} <= {"create", None}, f"the types were {[one.timestamp_type for one in taken]}")


@scenario("A record without a timestamp gets the client's time.")
def time_of_sending(context: ScenarioContext) -> None:
    topic, before = context.topic(), _now()
    producer = context.producer(acks="all")
    producer.send_ok(topic, [Record(b"v", partition=0)])
    producer.close()
    (stored,) = context.truth.records(topic)
    expect(before - SECOND_MS <= stored.timestamp <= _now() + SECOND_MS, f"the timestamp is {stored.timestamp}, sent after {before}")


@scenario("In a topic with message.timestamp.type=LogAppendTime records have the broker's time, and consumers get that type.")
def append_time(context: ScenarioContext) -> None:
    topic, old = context.topic(configs={"message.timestamp.type": "LogAppendTime"}), 1_000_000_000_000
    before = _now()
    producer = context.producer(acks="all")
    producer.send_ok(topic, [Record(b"v", partition=0, timestamp=old)])
    producer.close()
    (taken,) = context.read(topic, 1)
    expect(before - SECOND_MS <= taken.timestamp <= _now() + SECOND_MS, f"the timestamp is {taken.timestamp}, sent after {before}")
    expect(taken.timestamp_type in {"append", None}, f"the type is {taken.timestamp_type}")

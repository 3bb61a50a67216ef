"""Producing: acknowledgements, synchronous and asynchronous sends, batches, limits."""

from __future__ import annotations

import random

from client_compat.matrix.control import ClientError
from client_compat.matrix.facades import Mode, Record, numbered, places
from client_compat.matrix.scenario import ScenarioContext, expect, poll_until, same, scenario
from client_compat.matrix.truth import until

COUNT = 100
LARGE_BYTES = 900_000
"""The size of a large record in bytes. It is below the default size limit of clients and brokers, one megabyte."""


def _values(count: int, *, size: int = 0) -> list[bytes | None]:
    return [record.value for record in numbered(count, size=size)]


def _all_acknowledged(context: ScenarioContext, mode: Mode, count: int) -> None:
    topic = context.topic()
    producer = context.producer(acks="all")
    sent = producer.send_ok(topic, numbered(count, partition=0), mode=mode)
    producer.close()
    same([one.offset for one in places(sent)], list(range(count)), "offsets that were acknowledged")
    same(context.truth.values(topic), _values(count), "the log's values")


@scenario("With acks=all, records sent one after the other are acknowledged with the offsets at which they are stored.", quick=True)
def acks_all_sync(context: ScenarioContext) -> None:
    _all_acknowledged(context, "sync", 20)


@scenario("With acks=all, records sent together are acknowledged through callbacks, futures or promises, each with its offset.", quick=True)
def acks_all_async(context: ScenarioContext) -> None:
    _all_acknowledged(context, "async", COUNT)


@scenario("With acks=1, every record is acknowledged and stored once, in order.")
def acks_leader(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(acks="1")
    sent = producer.send_ok(topic, numbered(COUNT, partition=0))
    producer.close()
    same([one.offset for one in places(sent)], list(range(COUNT)), "offsets that were acknowledged")
    same(context.truth.values(topic), _values(COUNT), "the log's values")


@scenario("With acks=0 the client waits for no response and gets no offset, and the records are stored.", quick=True)
def acks_none(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(acks="0")
    sent = producer.send_ok(topic, numbered(COUNT, partition=0))
    for _ in until(f"{COUNT} records sent with acks=0 are stored"):
        if context.truth.end_offset(topic) >= COUNT:
            break
    producer.close()
    expect(len(sent) == COUNT, f"{len(sent)} of {COUNT} sends came back")
    same(context.truth.values(topic), _values(COUNT), "the log's values")


@scenario("Produced records are consumed with the same values in the same order, from the first offset.", quick=True)
def produce_consume(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(acks="all")
    producer.send_ok(topic, numbered(COUNT, partition=0))
    producer.close()
    taken = context.read(topic, COUNT)
    same([(one.offset, one.value) for one in taken], list(enumerate(_values(COUNT))), "offsets and values consumed")


@scenario("With linger.ms a producer sends many records in few batches.")
def linger(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(acks="all", linger_ms=200)
    producer.send_ok(topic, numbered(COUNT, partition=0))
    producer.close()
    batches = context.truth.batches(topic)
    same([record.value for batch in batches for record in batch.records], _values(COUNT), "the log's values")
    expect(len(batches) <= COUNT // 4, f"{COUNT} records came in {len(batches)} batches")


@scenario("A producer's batch size limits its batches: records that do not fit into one are sent in several, in order.")
def batch_size(context: ScenarioContext) -> None:
    topic, limit, size = context.topic(), 4_000, 200
    producer = context.producer(acks="all", linger_ms=100, batch_bytes=limit)
    producer.send_ok(topic, numbered(COUNT, partition=0, size=size))
    producer.close()
    batches = context.truth.batches(topic)
    same([record.value for batch in batches for record in batch.records], _values(COUNT, size=size), "the log's values")
    largest = max(batch.header.size_bytes for batch in batches)
    expect(largest <= limit + 2 * size, f"the largest batch has {largest} bytes, with a limit of {limit}")


@scenario("With a buffer smaller than the data, every record is delivered or rejected, and the log has exactly the delivered ones.")
def buffer_limit(context: ScenarioContext) -> None:
    topic, count = context.topic(), 400
    producer = context.producer(acks="all", buffer_bytes=64 * 1024)
    sent = producer.send(topic, numbered(count, partition=0, size=1_000))
    producer.close()
    delivered = [number for number, one in enumerate(sent) if one.error is None]
    expect(len(delivered) >= count // 10, f"only {len(delivered)} of {count} records were delivered; {sent[-1].error}")
    same(
        [int((value or b"").rstrip(b".")) for value in context.truth.values(topic)],
        delivered,
        "the log's values, against what was acknowledged",
    )


@scenario("A record of 900 KB is produced and consumed unchanged.")
def large_record(context: ScenarioContext) -> None:
    topic, value = context.topic(), random.Random(4).randbytes(LARGE_BYTES)
    producer = context.producer(acks="all")
    producer.send_ok(topic, [Record(value, partition=0), Record(b"small", partition=0)])
    producer.close()
    expect(context.truth.values(topic) == [value, b"small"], "the log holds other bytes than were sent")
    taken = context.read(topic, 2)
    expect([one.value for one in taken] == [value, b"small"], f"{[len(one.value or b'') for one in taken]} bytes were read")


@scenario("A record above the topic's max.message.bytes is rejected with MESSAGE_TOO_LARGE, and a smaller one after it is stored.")
def record_too_large_for_the_topic(context: ScenarioContext) -> None:
    topic = context.topic(configs={"max.message.bytes": "10000"})
    producer = context.producer(acks="all")
    (refused,) = producer.send(topic, [Record(random.Random(4).randbytes(50_000), partition=0)], mode="sync")
    expect(refused.error is not None, "the record was acknowledged")
    same(refused.error.code if refused.error else None, "MESSAGE_TOO_LARGE", "the error")
    producer.send_ok(topic, [Record(b"small", partition=0)], mode="sync")
    producer.close()
    same(context.truth.values(topic), [b"small"], "the log's values")


@scenario("The client rejects a record above its own limit before sending it, and a smaller one after it is stored.")
def record_too_large_for_the_client(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(acks="all", max_request_bytes=10_000)
    try:
        (refused,) = producer.send(topic, [Record(random.Random(4).randbytes(50_000), partition=0)], mode="sync")
        expect(refused.error is not None, "the record was acknowledged")
    except ClientError:
        producer.close()
        producer = context.producer(acks="all", max_request_bytes=10_000)
    producer.send_ok(topic, [Record(b"small", partition=0)], mode="sync")
    producer.close()
    same(context.truth.values(topic), [b"small"], "the log's values")


@scenario("With five requests in flight, many small batches of an idempotent producer are stored in the order in which they were sent.")
def five_in_flight(context: ScenarioContext) -> None:
    topic, count, size = context.topic(), 500, 100
    producer = context.producer(acks="all", idempotent=True, max_in_flight=5, batch_bytes=1_000)
    sent = producer.send_ok(topic, numbered(count, partition=0, size=size))
    producer.close()
    same([one.offset for one in places(sent)], list(range(count)), "offsets that were acknowledged")
    batches = context.truth.batches(topic)
    same([record.value for batch in batches for record in batch.records], _values(count, size=size), "the log's values")
    expect(all(batch.header.producer_id >= 0 for batch in batches), "a batch came without a producer id")


@scenario("Records with explicit partitions are stored there, and each partition keeps its order.")
def explicit_partitions(context: ScenarioContext) -> None:
    partitions, count = 4, 20
    topic = context.topic(partitions)
    producer = context.producer(acks="all")
    sent = producer.send_ok(topic, [Record(b"%d" % n, partition=n % partitions) for n in range(count * partitions)])
    producer.close()
    same(
        [(one.partition, one.offset) for one in places(sent)],
        [(n % partitions, n // partitions) for n in range(count * partitions)],
        "acknowledged",
    )
    for index in range(partitions):
        wanted: list[bytes | None] = [b"%d" % n for n in range(index, count * partitions, partitions)]
        same(context.truth.values(topic, index), wanted, f"partition {index}")
    taken = context.read(topic, count * partitions, partitions=partitions)
    same(len({(one.partition, one.offset) for one in taken}), count * partitions, "places consumed")


@scenario("A producer and a consumer alternate: each record is consumed before the next is sent.")
def ping_pong(context: ScenarioContext) -> None:
    topic = context.topic()
    producer, consumer = context.producer(acks="all"), context.consumer(reset="earliest")
    consumer.assign([(topic, 0)])
    for number in range(10):
        producer.send_ok(topic, [Record(b"%d" % number, partition=0)], mode="sync")
        same([one.value for one in poll_until(consumer, 1)], [b"%d" % number], f"round {number}")
    producer.close()
    consumer.close()

"""Consuming without a group: positions, seeks, timestamps, pauses, fetch limits, sessions."""

from __future__ import annotations

import time

from client_compat.matrix.control import ClientError
from client_compat.matrix.facades import ConsumedRecord, Consumer, Partition, Record
from client_compat.matrix.scenario import ScenarioContext, expect, poll_until, same, scenario

COUNT = 50
STEP_MS = 1_000


def _filled(context: ScenarioContext, partitions: int = 1, count: int = COUNT) -> list[Partition]:
    """Create a topic with `count` records in each partition, with values `partition:number`, in batches of ten; return its partitions."""
    topic = context.topic(partitions)
    for index in range(partitions):
        for start in range(0, count, 10):
            context.truth.write_values(topic, [b"%d:%d" % (index, n) for n in range(start, min(start + 10, count))], partition=index)
    return [(topic, index) for index in range(partitions)]


def _reader(context: ScenarioContext, partitions: list[Partition]) -> Consumer:
    consumer = context.consumer(reset="earliest")
    consumer.assign(partitions)
    return consumer


def _offsets(taken: list[ConsumedRecord]) -> list[int]:
    return [one.offset for one in taken]


@scenario(
    "After a seek to an offset in the middle of a batch, to the beginning or to the end, the consumer continues from there.", quick=True
)
def seek(context: ScenarioContext) -> None:
    ((topic, index),) = partitions = _filled(context)
    consumer = _reader(context, partitions)
    same(_offsets(poll_until(consumer, COUNT))[:COUNT], list(range(COUNT)), "offsets from the beginning")
    consumer.seek((topic, index), 33)
    same(_offsets(poll_until(consumer, COUNT - 33)), list(range(33, COUNT)), "offsets after seek(33)")
    consumer.seek((topic, index), "beginning")
    same(_offsets(poll_until(consumer, COUNT)), list(range(COUNT)), "offsets after seek(beginning)")
    consumer.seek((topic, index), "end")
    same(consumer.poll(1, 500), [], "records at the end")
    context.truth.write_values(topic, [b"new"])
    same([one.value for one in poll_until(consumer, 1)], [b"new"], "what came after seek(end)")
    consumer.close()


@scenario("A consumer's position is one past the last record that it got.")
def position(context: ScenarioContext) -> None:
    (partition,) = partitions = _filled(context)
    consumer = _reader(context, partitions)
    taken = poll_until(consumer, COUNT)
    same(consumer.position(partitions), {partition: taken[-1].offset + 1}, "the position after a poll")
    consumer.close()


@scenario("The beginning and end offsets are those of the log.", quick=True)
def beginning_and_end_offsets(context: ScenarioContext) -> None:
    partitions = _filled(context, 2)
    empty = (context.topic(), 0)
    consumer = _reader(context, [*partitions, empty])
    same(consumer.end_offsets([*partitions, empty]), {**dict.fromkeys(partitions, COUNT), empty: 0}, "end offsets")
    same(consumer.beginning_offsets([*partitions, empty]), {**dict.fromkeys(partitions, 0), empty: 0}, "beginning offsets")
    consumer.close()


@scenario("An offset lookup by time returns the first record at or after the time, and nothing after the last record.", quick=True)
def offsets_for_times(context: ScenarioContext) -> None:
    topic, first = context.topic(), int(time.time() * 1000) - COUNT * STEP_MS
    for number in range(10):
        context.truth.write_values(topic, [b"%d" % number], timestamp=first + number * STEP_MS)
    consumer = _reader(context, [(topic, 0)])
    for at, wanted in ((first, 0), (first + 1, 1), (first + 4 * STEP_MS, 4), (first - 10 * STEP_MS, 0)):
        offset, timestamp = consumer.offsets_for_times({(topic, 0): at})[topic, 0]
        same(offset, wanted, f"the offset for {at - first} ms after the first record")
        expect(timestamp in {None, first + wanted * STEP_MS}, f"its timestamp is {timestamp}, where {first + wanted * STEP_MS} was to be")
    offset, _ = consumer.offsets_for_times({(topic, 0): first + 60 * STEP_MS})[topic, 0]
    expect(offset in {None, -1, 10}, f"the offset for a time after the last record is {offset}")
    consumer.close()


@scenario("A paused partition returns no records while others do, and continues where it stopped when it is resumed.")
def pause_and_resume(context: ScenarioContext) -> None:
    partitions = _filled(context, 2)
    paused, other = partitions
    consumer = _reader(context, partitions)
    poll_until(consumer, 2 * COUNT)
    consumer.pause([paused])
    for _, index in partitions:
        context.truth.write_values(paused[0], [b"%d:late" % index], partition=index)
    same([(one.partition, one.offset) for one in poll_until(consumer, 1)], [(other[1], COUNT)], "what came while one was paused")
    same(consumer.poll(1, 700), [], "what else came while it was paused")
    consumer.resume([paused])
    same([(one.partition, one.offset) for one in poll_until(consumer, 1)], [(paused[1], COUNT)], "what came after it was resumed")
    consumer.close()


@scenario("A consumer without a position starts at the beginning or at the end, according to auto.offset.reset.")
def reset_earliest_and_latest(context: ScenarioContext) -> None:
    ((topic, index),) = _filled(context)
    same(_offsets(context.read(topic, COUNT, reset="earliest")), list(range(COUNT)), "offsets with earliest")
    consumer = context.consumer(reset="latest")
    consumer.assign([(topic, index)])
    same(consumer.poll(1, 1_000), [], "records with latest, before anything new")
    context.truth.write_values(topic, [b"new"])
    same(_offsets(poll_until(consumer, 1)), [COUNT], "offsets with latest")
    consumer.close()


@scenario("A position that the log no longer has is reset according to auto.offset.reset.")
def position_out_of_range(context: ScenarioContext) -> None:
    (partition,) = partitions = _filled(context)
    consumer = _reader(context, partitions)
    poll_until(consumer, COUNT)
    consumer.seek(partition, 10 * COUNT)
    same(_offsets(poll_until(consumer, COUNT)), list(range(COUNT)), "offsets after a seek beyond the end")
    consumer.close()


@scenario("With auto.offset.reset=none a position that the log does not have is an error.")
def reset_none(context: ScenarioContext) -> None:
    (partition,) = _filled(context)
    consumer = context.consumer(reset="none")
    consumer.assign([partition])
    taken: list[ConsumedRecord] = []
    try:
        consumer.seek(partition, 10 * COUNT)
        taken = consumer.poll(1, 4_000)
    except ClientError:
        consumer.close()
        return
    expect(False, f"there was no error, and {len(taken)} records")


@scenario("Records larger than a fetch's limit arrive one at a time, so that a consumer always makes progress.")
def small_fetches(context: ScenarioContext) -> None:
    topic, size = context.topic(), 20_000
    for number in range(10):
        context.truth.write_values(topic, [b"%d" % number + b"." * size])
    consumer = context.consumer(reset="earliest", fetch_max_bytes=1_000, partition_fetch_bytes=1_000)
    consumer.assign([(topic, 0)])
    same(_offsets(poll_until(consumer, 10)), list(range(10)), "offsets")
    consumer.close()


@scenario("A fetch whose minimum of bytes is not available returns the available records after its maximum wait.")
def fetch_purgatory(context: ScenarioContext) -> None:
    (partition,) = _filled(context, count=10)
    consumer = context.consumer(reset="earliest", fetch_min_bytes=1_000_000, fetch_max_wait_ms=1_500)
    consumer.assign([partition])
    began = time.monotonic()
    same(_offsets(poll_until(consumer, 10)), list(range(10)), "offsets")
    took = time.monotonic() - began
    expect(1.0 <= took <= 15.0, f"ten records with fetch.min.bytes of a megabyte came after {took:.2f} s, and not after the wait of 1.5 s")
    consumer.close()


@scenario("A consumer that waits at the end of the log gets a record as soon as it is written, not when its fetch expires.")
def woken_at_once(context: ScenarioContext) -> None:
    (partition,) = partitions = _filled(context, count=1)
    consumer = context.consumer(reset="earliest", fetch_max_wait_ms=5_000)
    consumer.assign(partitions)
    poll_until(consumer, 1)
    began = time.monotonic()
    for number in range(3):
        same(consumer.poll(1, 200), [], "records at the end")
        context.truth.write_values(partition[0], [b"%d" % number])
        poll_until(consumer, 1)
    took = time.monotonic() - began
    expect(took < 4.5, f"three records took {took:.1f} s to be read, with fetch.max.wait.ms of 5 s")
    consumer.close()


@scenario("With sixty partitions of which few change, some paused and resumed, a fetch session loses no record and repeats none.")
def many_partitions(context: ScenarioContext) -> None:
    count = 60
    topic = context.topic(count)
    partitions = [(topic, index) for index in range(count)]
    consumer = _reader(context, partitions)
    found: list[tuple[int, bytes | None]] = []
    for round_ in range(4):
        written = [(index, b"%d" % round_) for index in range(round_, count, 7)]
        for index, value in written:
            context.truth.write_values(topic, [value], partition=index)
        found += [(one.partition, one.value) for one in poll_until(consumer, len(written))]
        half = [partition for partition in partitions if partition[1] % 2 == round_ % 2]
        consumer.pause(half)
        consumer.poll(1, 100)
        consumer.resume(half)
    wanted = [(index, b"%d" % round_) for round_ in range(4) for index in range(round_, count, 7)]
    same(sorted(found, key=repr), sorted(wanted, key=repr), "partitions and values")
    consumer.close()


@scenario("After a changed assignment, removed partitions return nothing, and new ones return records from their beginning.")
def assign_again(context: ScenarioContext) -> None:
    partitions = _filled(context, 3)
    consumer = _reader(context, partitions[:2])
    poll_until(consumer, 2 * COUNT)
    consumer.assign(partitions[2:])
    same(consumer.assignment(), set(partitions[2:]), "the assignment")
    context.truth.write_values(partitions[0][0], [b"unseen"], partition=0)
    taken = poll_until(consumer, COUNT) + consumer.poll(1, 300)
    same({one.partition for one in taken}, {2}, "partitions that gave records")
    consumer.close()


@scenario("Two consumers without a group each read all records of a partition.")
def two_readers(context: ScenarioContext) -> None:
    partitions = _filled(context)
    first, second = _reader(context, partitions), _reader(context, partitions)
    for consumer in (first, second):
        same(_offsets(poll_until(consumer, COUNT)), list(range(COUNT)), "offsets")
        consumer.close()


@scenario("Ten thousand records of 100 bytes over six partitions are read, each once.", quick=True)
def bulk(context: ScenarioContext) -> None:
    count, partitions = 10_000, 6
    topic = context.topic(partitions)
    producer = context.producer(acks="all")
    for start in range(0, count, 2_000):
        producer.send_ok(topic, [Record((b"%d" % n).ljust(100, b"."), partition=n % partitions) for n in range(start, start + 2_000)])
    producer.close()
    taken = context.read(topic, count, partitions=partitions)
    same(sorted(int((one.value or b"").rstrip(b".")) for one in taken), list(range(count)), "values consumed")

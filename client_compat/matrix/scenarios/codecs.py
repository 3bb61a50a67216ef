"""Compression: each codec as the client under test writes and reads it, and batches that one client compressed and another reads."""

from __future__ import annotations

import itertools
import time

from client_compat.matrix.brokers import Skipped
from client_compat.matrix.control import ClientError, ProgramFailed, Unsupported
from client_compat.matrix.facades import Client, ConsumedRecord, Record
from client_compat.matrix.scenario import ScenarioContext, ScenarioFailed, expect, poll_until, same, scenario
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord

COUNT = 40
VALUES: list[bytes] = [b"%d: %s" % (number, b"the same words again and again, " * 30) for number in range(COUNT)]
"""The values to compress. Together they have more than 32 KiB, because some compression framings begin a new block there."""


def _write(client: Client, topic: str, codec: Codec, partition: int = 0) -> None:
    producer = client.producer(acks="all", compression=codec.name.lower())
    producer.send_ok(topic, [Record(value, b"k", partition=partition) for value in VALUES])
    producer.close()


def _codec_both_ways(context: ScenarioContext, codec: Codec) -> None:
    """Let the client under test write compressed records, and check their batches in the log. Then let it read records that Ottla's own
    code compressed."""
    written, given = context.topic(), context.topic()
    _write(context.client, written, codec)
    batches = context.truth.batches(written)
    same([record.value for batch in batches for record in batch.records], list(VALUES), "the log's values")
    same({batch.header.codec for batch in batches}, {codec}, "codecs of the log's batches")
    at = int(time.time() * 1000)
    context.truth.write(given, [SimpleRecord(b"k", value, at) for value in VALUES], codec=codec)
    same([one.value for one in context.read(given, COUNT)], list(VALUES), "values consumed")


@scenario("gzip is written and read.", quick=True)
def gzip(context: ScenarioContext) -> None:
    _codec_both_ways(context, Codec.GZIP)


@scenario("snappy is written and read.", quick=True)
def snappy(context: ScenarioContext) -> None:
    _codec_both_ways(context, Codec.SNAPPY)


@scenario("lz4 is written and read.", quick=True)
def lz4(context: ScenarioContext) -> None:
    _codec_both_ways(context, Codec.LZ4)


@scenario("zstd is written and read.", quick=True)
def zstd(context: ScenarioContext) -> None:
    _codec_both_ways(context, Codec.ZSTD)


@scenario("The broker applies the topic's compression.type, whatever codec the client uses, and the client can read the records.")
def topic_codec(context: ScenarioContext) -> None:
    topic = context.topic(configs={"compression.type": "zstd"})
    _write(context.client, topic, Codec.GZIP)
    batches = context.truth.batches(topic)
    same({batch.header.codec for batch in batches}, {Codec.ZSTD}, "codecs of the log's batches")
    same([one.value for one in context.read(topic, COUNT)], list(VALUES), "values consumed")


@scenario("Every other client reads what this client writes with each codec, except codecs that one of the two lacks.", timeout_s=300.0)
def codecs_read_by_all(context: ScenarioContext) -> None:
    topic = context.topic(len(Codec))
    written = [codec for codec in Codec if _can_write(context.client, topic, codec)]
    expect(bool(written), "it writes with no codec at all")
    bad, count = [], 0
    for name in context.programs.others():
        if name == context.client_name:
            continue
        try:
            reader = context.other(name)
        except Skipped:
            continue
        except ProgramFailed as error:
            bad.append(f"{name}: {error}")
            continue
        count += 1
        try:
            unread = ((codec, why) for codec in written if (why := _unread(reader, topic, codec)))
            # Stop at the first unreadable codec: a client that reads nothing would wait for the full time with each one.
            bad += [f"{name} with {codec.name.lower()}: {why}" for codec, why in itertools.islice(unread, 1)]
        except ProgramFailed as error:
            bad.append(f"{name}: {error}")
    expect(count > 0, "there is no other client here")
    expect(not bad, f"not read: {'; '.join(bad)}")


def _can_write(client: Client, topic: str, codec: Codec) -> bool:
    try:
        _write(client, topic, codec, codec)
    except Unsupported:
        return False
    return True


def _unread(reader: Client, topic: str, codec: Codec) -> str:
    """Return why `reader` cannot read the partition that contains records compressed with `codec`; empty if it can, or if it reports the
    codec as unsupported.

    Raises `ProgramFailed` if the client program fails.
    """
    try:
        consumer = reader.consumer(reset="earliest")
        consumer.assign([(topic, codec)])
        taken: list[ConsumedRecord] = poll_until(consumer, COUNT)
        consumer.close()
        same([one.value for one in taken], list(VALUES), "values consumed")
    except Unsupported:
        return ""
    except (ScenarioFailed, ClientError) as error:
        return str(error)
    return ""

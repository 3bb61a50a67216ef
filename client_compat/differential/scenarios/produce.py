"""Compare Ottla with Apache Kafka by Produce requests: accepted and rejected batches, and the rules for idempotent producers."""

from __future__ import annotations

import struct

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import TIME, UNKNOWN_ID, batch, create, produce, produce_request, producer_id
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.record import SimpleRecord, build_batch


def resealed(data: bytes | bytearray) -> bytes:
    """Return a record batch in which the checksum has been computed again, so that it is valid."""
    sealed = bytearray(data)
    struct.pack_into(">I", sealed, 17, crc32c(bytes(sealed[21:])))
    return bytes(sealed)


def changed(data: bytes, at: int, layout: str, value: int, *, seal: bool = True) -> bytes:
    """Return the batch with `value` written at byte `at`, in the struct format `layout`. With `seal`, the batch gets a valid checksum."""
    raw = bytearray(data)
    struct.pack_into(layout, raw, at, value)
    return resealed(raw) if seal else bytes(raw)


def versions(probe: Probe) -> None:
    """Produce at every version: to known and unknown partitions, with wrong acks, and with invalid batches."""
    topic_id = create(probe, "produced", 2)
    for version in probe.range(ApiKey.PRODUCE):
        if version < 3:
            continue
        for acks in (1, -1):
            records = batch(b"one", b"two")
            probe.ask(f"acks {acks}", produce_request(probe, "produced", topic_id, records, version, acks=acks), version)
        bad = batch(b"x")
        probe.ask("acks 2", produce_request(probe, "produced", topic_id, bad, version, acks=2), version)
        probe.ask("unknown partition", produce_request(probe, "produced", topic_id, bad, version, partition=7), version)
        probe.ask("negative partition", produce_request(probe, "produced", topic_id, bad, version, partition=-1), version)
        probe.ask("unknown topic", produce_request(probe, "nowhere", UNKNOWN_ID, bad, version), version)
        probe.ask("no topic", produce_request(probe, "", bytes(16), bad, version), version)
        probe.ask("empty records", produce_request(probe, "produced", topic_id, b"", version), version)
        probe.ask("two batches", produce_request(probe, "produced", topic_id, bad + bad, version), version)
        probe.ask("nothing at all", ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[]), version)
        probe.ask("an internal topic", produce_request(probe, "__consumer_offsets", UNKNOWN_ID, bad, version), version)
    probe.ask("no records", produce_request(probe, "produced", topic_id, None, 9), 9, on="none")
    probe.hang_up("none")  # releases before 3.6 send a second response to this request
    twice = TopicProduceData("produced", topic_id, [PartitionProduceData(0, batch(b"x")), PartitionProduceData(0, batch(b"y"))])
    probe.ask("a partition twice", ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[twice]), 9)
    others = {
        "bad": b"junk",
        "a batch of magic 3": changed(batch(b"x"), 16, ">b", 3, seal=False),
        "a batch of magic 1": changed(batch(b"x"), 16, ">b", 1, seal=False),
        "a batch of no size": changed(batch(b"x"), 8, ">i", 0, seal=False),
        "half a batch": batch(b"x")[:-1],
        "a batch with junk behind": batch(b"x") + bytes(20),
    }
    for label, bad in others.items():
        several = [PartitionProduceData(0, batch(b"x")), PartitionProduceData(1, bad), PartitionProduceData(5, batch(b"y"))]
        topics = [TopicProduceData("produced", topic_id, several)]
        probe.ask(f"good and {label}", ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics), 9)
    zstd = batch(b"x", codec=Codec.ZSTD) + bytes(20)
    probe.ask("zstd with junk behind, before version 7", produce_request(probe, "produced", topic_id, zstd, 5), 5)


def bad_batches(probe: Probe) -> None:
    """Produce batches with one invalid field each."""
    create(probe, "bad")
    good = batch(b"one", b"two", b"three")
    cases = {
        "wrong checksum": changed(good, 17, ">I", 1, seal=False),
        "magic 0": changed(good, 16, ">b", 0, seal=False),
        "magic 1": changed(good, 16, ">b", 1, seal=False),
        "magic 3": changed(good, 16, ">b", 3, seal=False),
        "length too short": changed(good, 8, ">i", 10, seal=False),
        "length negative": changed(good, 8, ">i", -1, seal=False),
        "length beyond": changed(good, 8, ">i", 10_000, seal=False),
        "cut off": good[:-3],
        "only a header": good[:61],
        "half a header": good[:30],
        "base offset 5": changed(good, 0, ">q", 5, seal=False),
        "last offset delta too great": changed(good, 23, ">i", 9),
        "last offset delta too small": changed(good, 23, ">i", 1),
        "last offset delta negative": changed(good, 23, ">i", -1),
        "count too great": changed(good, 57, ">i", 4),
        "count too small": changed(good, 57, ">i", 2),
        "count zero": changed(good, 57, ">i", 0),
        "count negative": changed(good, 57, ">i", -1),
        "control": changed(good, 21, ">h", 0x20),
        "codec 5": changed(good, 21, ">h", 5),
        "codec 7": changed(good, 21, ">h", 7),
        "gzip that is none": changed(good, 21, ">h", 1),
        "append time": changed(good, 21, ">h", 8),
        "unused attribute": changed(good, 21, ">h", 0x80),
        "delete horizon": changed(good, 21, ">h", 0x40),
        "greatest timestamp wrong": changed(good, 35, ">q", TIME + 99),
        "epoch without an id": changed(good, 51, ">h", 3),
        "sequence without an id": changed(good, 53, ">i", 3),
        "leader epoch 9": changed(good, 12, ">i", 9, seal=False),
        "records damaged": resealed(good[:61] + b"\xff" * (len(good) - 61)),
        "bytes behind": good + b"\x00",
        "good, then junk": good + b"junk" * 20,
        "transactional without an id": batch(b"x", transactional=True),
    }
    for label, records in cases.items():
        for version in (3, 7, 9):
            produce(probe, label, "bad", records, version)


def codecs_and_times(probe: Probe) -> None:
    """Produce with each codec and version, both timestamp types, size and timestamp limits, and to compacted topics."""
    for codec in Codec:
        create(probe, f"codec-{codec.name.lower()}", configs={"compression.type": "gzip"})
        for version in (3, 7, 9):
            produce(probe, f"codec {codec.name}", f"codec-{codec.name.lower()}", batch(b"x" * 50, b"y" * 50, codec=codec), version)
    create(probe, "append-time", configs={"message.timestamp.type": "LogAppendTime"})
    produce(probe, "append time", "append-time", batch(b"x", b"y"))
    create(probe, "small", configs={"max.message.bytes": "200"})
    produce(probe, "small enough", "small", batch(b"x" * 100))
    produce(probe, "too large", "small", batch(b"x" * 300))
    produce(probe, "small, then large", "small", batch(b"x" * 100) + batch(b"x" * 300))
    create(probe, "compacted", configs={"cleanup.policy": "compact"})
    for version in (3, 7, 8, 9):
        produce(probe, "null keys", "compacted", batch(b"x", b"y", b"z", keys=[b"k", None, None]), version)
    produce(probe, "keys", "compacted", batch(b"x", b"y", keys=[b"k", b"k"]))
    produce(probe, "negative timestamps", "append-time", build_batch([SimpleRecord(None, b"x", -1), SimpleRecord(None, b"x", -1)]))
    create(probe, "no-time")
    produce(probe, "no timestamps", "no-time", build_batch([SimpleRecord(None, b"x", -1), SimpleRecord(None, b"x", -1)]))
    produce(probe, "timestamp -5", "no-time", build_batch([SimpleRecord(None, b"x", -5)]))
    create(probe, "timely", configs={"message.timestamp.before.max.ms": "1000"})
    for version in (3, 7, 8, 9):
        produce(probe, "too old", "timely", batch(b"x", b"y"), version)
    create(probe, "too-early", configs={"message.timestamp.after.max.ms": "1000"})
    future = build_batch([SimpleRecord(None, b"x", 4_000_000_000_000)])
    produce(probe, "too new", "too-early", future, 8)


def idempotent(probe: Probe) -> None:
    """Produce with first, next, missing, repeated and old sequences and with other epochs, and describe the producers."""
    create(probe, "idem", 3)
    pid = producer_id(probe)
    for unknown in (pid, pid + 997, pid + 998, pid + 999):
        probe.names.number("producer_id", unknown)

    def send(label: str, sequence: int, *values: bytes, epoch: int = 0, partition: int = 0, who: int = pid, version: int = 9) -> None:
        records = batch(*(values or (b"v",)), producer_id=who, producer_epoch=epoch, base_sequence=sequence)
        produce(probe, label, "idem", records, version, partition=partition)

    send("first", 0, b"a", b"b")
    send("next", 2)
    send("repeated", 0, b"a", b"b")
    send("repeated newest", 2)
    send("gap", 9)
    for sequence in range(3, 9):
        send(f"sequence {sequence}", sequence)
    send("out of the window", 0, b"a", b"b")
    send("last in the window", 4)
    send("overlap", 7, b"a", b"b", b"c")
    send("other length", 8, b"a", b"b")
    send("epoch 1 not from 0", 5, epoch=1)
    send("epoch 1", 0, epoch=1)
    send("epoch 0 again", 9)
    for version in (3, 7, 12):
        if version in probe.range(ApiKey.PRODUCE):
            send(f"epoch 0 again, v{version}", 9, version=version)
    send("epoch -1", 9, epoch=-1)
    send("epoch -2 of an unknown id", 0, epoch=-2, who=pid + 999, partition=2)
    send("negative sequence", -1, epoch=1)
    send("unknown id, not from 0", 5, who=pid + 999, partition=1)
    send("unknown id, from 0", 0, who=pid + 998, partition=1)
    send("new partition, not from 0", 5, epoch=1, partition=2)
    send("wrap", 2_147_483_647, b"a", b"b", who=pid + 997, partition=2)
    send("after the wrap", 1, who=pid + 997, partition=2)
    two = [batch(b"x", producer_id=pid, producer_epoch=1, base_sequence=n) for n in (1, 2)]
    produce(probe, "two batches of a producer", "idem", b"".join(two), partition=0)
    for partition in (0, 1, 2, 9):
        probe.ask(f"producers of {partition}", DescribeProducersRequest([TopicRequest("idem", [partition])]))
    probe.ask("producers of nowhere", DescribeProducersRequest([TopicRequest("nowhere", [0])]))


def producer_ids(probe: Probe) -> None:
    """Send InitProducerId without a transactional id."""
    producer_id(probe)
    for version in probe.range(ApiKey.INIT_PRODUCER_ID):
        probe.ask("new", InitProducerIdRequest(None, 60_000), version)
        probe.ask("no timeout", InitProducerIdRequest(None, 0), version)
        probe.ask("negative timeout", InitProducerIdRequest(None, -1), version)
        probe.ask("empty transactional id", InitProducerIdRequest("", 60_000), version)
        if version >= 3:
            probe.ask("with an id", InitProducerIdRequest(None, 60_000, 5, 0), version)
            probe.ask("epoch without id", InitProducerIdRequest(None, 60_000, -1, 0), version)
            probe.ask("id without epoch", InitProducerIdRequest(None, 60_000, 5, -1), version)

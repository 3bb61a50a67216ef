"""Requests that no well-behaved client would send, or not at that moment, such as a batch with a chosen producer id and sequence."""

from __future__ import annotations

import time
from typing import NamedTuple

from client_compat.matrix.truth import until
from client_compat.support.brokers import HOST
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.records.record import SimpleRecord, build_batch

PRODUCE_VERSION, INIT_VERSION = 9, 4


class Identity(NamedTuple):
    """The producer id, epoch and base sequence of a batch."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1


ANONYMOUS = Identity()


def produce_raw(
    port: int, topic: str, value: str, who: Identity = ANONYMOUS, *, count: int = 1, acks: int = -1, timeout_ms: int = 10_000
) -> tuple[str, int]:
    """Send one batch of `count` equal records to partition 0 of `topic`, to the broker at `port`; return the error name and the offset."""
    records = [SimpleRecord(None, value.encode(), time.time_ns() // 1_000_000)] * count
    batch = build_batch(records, producer_id=who.producer_id, producer_epoch=who.epoch, base_sequence=who.sequence)
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
    with Client(HOST, port) as wire:
        answer = wire.call(ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data), PRODUCE_VERSION)
    one = answer.responses[0].partition_responses[0]
    return ErrorCode(one.error_code).name, int(one.base_offset)


def new_producer_id(port: int) -> int:
    """Return a producer id from the broker. Waits while the broker allocates a block of producer ids."""
    for _ in until("the broker gives a producer id"):
        with Client(HOST, port) as wire:
            answer = wire.call(InitProducerIdRequest(None, 60_000), INIT_VERSION)
        if answer.error_code == ErrorCode.NONE:
            return int(answer.producer_id)
    raise AssertionError("until raises")

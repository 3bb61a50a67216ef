"""Produces to one broker of a cluster, without retries."""

from __future__ import annotations

from time import time_ns

from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from ottla.protocol.messages.k00_produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.records.record import SimpleRecord, build_batch


def produce_to(
    broker: InProcessBroker, value: bytes, topic: str = "t", *, acks: int = -1, timeout_ms: int = 10_000, producer_id: int = -1
) -> PartitionProduceResponse:
    """Produce one record, with sequence 0 if `producer_id` is given; return the partition's response."""
    sequence = -1 if producer_id < 0 else 0
    batch = build_batch(
        [SimpleRecord(None, value, time_ns() // 1_000_000)], producer_id=producer_id, producer_epoch=sequence, base_sequence=sequence
    )
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    with Client("127.0.0.1", broker.port) as client:
        answer = client.call(ProduceRequest(None, acks, timeout_ms, [data]), version=12)
    result: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return result

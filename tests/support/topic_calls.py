"""Short forms of the requests that many wire tests begin with."""

from __future__ import annotations

from time import time_ns

from ottla.protocol.client import Client
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreatableTopicResult, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.records.record import SimpleRecord, build_batch


def create(client: Client, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> CreatableTopicResult:
    """Create a topic, which must succeed; return its result in the response."""
    wanted = CreatableTopic(name, partitions, -1, configs=[CreatableTopicConfig(key, value) for key, value in (configs or {}).items()])
    (result,) = client.call(CreateTopicsRequest([wanted])).topics
    assert (result.error_code, result.error_message) == (0, None)
    return result  # type: ignore[no-any-return] # Client.call is typed by what the request's class gives


def delete(client: Client, name: str) -> None:
    """Delete a topic; it must succeed."""
    (result,) = client.call(DeleteTopicsRequest([DeleteTopicState(name)]), version=6).responses
    assert result.error_code == 0


def describe(client: Client, *names: str, create_missing: bool = False) -> list[MetadataResponseTopic]:
    """Return metadata of the named topics, in the order of the names."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    response = client.call(MetadataRequest(topics, allow_auto_topic_creation=create_missing))
    return sorted(response.topics, key=lambda topic: names.index(topic.name))


def produce(client: Client, topic: str, *values: bytes, partition: int = 0, producer_id: int = -1, base_sequence: int = -1) -> int:
    """Append one batch with acks=all, which must succeed; return its base offset."""
    epoch = -1 if producer_id == -1 else 0
    batch = build_batch(
        [SimpleRecord(None, value, time_ns() // 1_000_000) for value in values],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=base_sequence,
    )
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])
    response = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), version=9)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == 0
    offset: int = answer.base_offset
    return offset

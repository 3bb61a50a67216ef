from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.group_calls import wait_until
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, delete, describe, produce

UNASKED = -0x80000000


@pytest.mark.parametrize("version", range(14))
def test_every_version_returns_the_broker_and_a_named_topic(broker: RunningBroker, client: Client, version: int) -> None:
    created = create(client, "t", 2)
    response = client.call(MetadataRequest([MetadataRequestTopic(name="t")]), version=version)
    (broker,) = response.brokers
    assert (broker.host, broker.port) == ("127.0.0.1", broker.port)
    (topic,) = response.topics
    assert (topic.error_code, topic.name, [p.partition_index for p in topic.partitions]) == (0, "t", [0, 1])
    assert {(p.error_code, p.leader_id, *p.replica_nodes, *p.isr_nodes) for p in topic.partitions} == {(0, 1, 1, 1)}
    assert topic.topic_id == (created.topic_id if version >= 10 else bytes(16))
    assert response.controller_id == (broker.node_id if version >= 1 else -1)
    assert bool(response.cluster_id) is (version >= 2)


@pytest.mark.parametrize(("version", "topics", "count"), [(0, [], 2), (1, None, 2), (13, None, 2), (1, [], 0), (13, [], 0)])
def test_an_empty_list_requests_all_topics_or_none_by_version(
    client: Client, version: int, topics: list[MetadataRequestTopic] | None, count: int
) -> None:
    create(client, "a")
    create(client, "b")
    response = client.call(MetadataRequest(topics), version=version)
    assert len(response.topics) == count


def test_all_of_many_topics_are_listed_with_the_authorized_operations(client: Client) -> None:
    names = [f"t{number:03}" for number in range(600)]
    client.call(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], timeout_ms=30_000))
    answered = client.call(MetadataRequest(None, include_topic_authorized_operations=True), version=10)
    assert [topic.name for topic in answered.topics] == names
    assert {(topic.error_code, len(topic.partitions)) for topic in answered.topics} == {(0, 1)}
    assert all(topic.topic_authorized_operations > 0 for topic in answered.topics)
    assert len(answered.brokers) == 1


def test_an_unknown_topic_is_created_after_an_unknown_topic_response(client: Client) -> None:
    for _ in range(2):
        (topic,) = describe(client, "new", create_missing=True)
        assert (topic.error_code, topic.topic_id, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, bytes(16), [])
        topic = wait_until_there(client, "new")
        assert len(topic.partitions) == 1
        assert produce(client, "new", b"x") == 0
        delete(client, "new")


def wait_until_there(client: Client, name: str) -> MetadataResponseTopic:
    """Return the topic's metadata as soon as the topic is created and has a leader."""
    found: list[MetadataResponseTopic] = []

    def is_led() -> bool:
        found[:] = describe(client, name)
        return found[0].error_code == 0 and all(partition.error_code == 0 for partition in found[0].partitions)

    wait_until(is_led, f"{name} is there")
    return found[0]


def test_an_unknown_topic_is_not_created_if_the_request_forbids_it(client: Client) -> None:
    for _ in range(2):
        (topic,) = describe(client, "new")
        assert (topic.error_code, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_an_invalid_name_does_not_prevent_the_creation_of_other_topics(client: Client) -> None:
    create(client, "a.b")
    codes = [topic.error_code for topic in describe(client, "bad name", "a_b", "good", create_missing=True)]
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    wait_until_there(client, "good")
    assert describe(client, "a_b")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_offsets_topic_is_created_internal_with_its_own_settings(client: Client) -> None:
    (topic,) = describe(client, "__consumer_offsets", create_missing=True)
    assert (topic.error_code, topic.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    topic = wait_until_there(client, "__consumer_offsets")
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 4)


def test_topics_are_found_by_id_from_version_12(client: Client) -> None:
    created = create(client, "t")
    topics = [MetadataRequestTopic(created.topic_id), MetadataRequestTopic(b"\x07" * 16)]
    known, unknown = client.call(MetadataRequest(topics), version=12).topics
    assert (known.name, known.topic_id, known.error_code) == ("t", created.topic_id, 0)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, b"\x07" * 16, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", [10, 11])
def test_an_id_before_version_12_is_an_invalid_request(client: Client, version: int) -> None:
    response = client.call(MetadataRequest([MetadataRequestTopic(b"\x07" * 16, "t")]), version=version)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]
    assert (response.brokers, response.controller_id, response.cluster_id) == ([], -1, None), "the refusal is Kafka's: of nothing else"


def test_authorized_operations_are_returned_on_request(client: Client) -> None:
    create(client, "t")
    request = MetadataRequest(None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    response = client.call(request, version=8)
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000 & ~(1 << 6)
    assert response.topics[0].topic_authorized_operations == 0b1101_1111_1000
    silent = client.call(MetadataRequest(None), version=8)
    assert (silent.cluster_authorized_operations, silent.topics[0].topic_authorized_operations) == (UNASKED, UNASKED)

"""The verifier's own client finds leaders and coordinators, and reports which address cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.testing.cluster import InProcessCluster
from ottla.broker.verification.verifier_client import BY_GROUP, VerifierClient
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.records.record import SimpleRecord, build_batch


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with InProcessCluster() as running:
        running.topics.create("t", partitions=3)
        yield running


@pytest.fixture
def verifier_client(cluster: InProcessCluster) -> Iterator[VerifierClient]:
    asking = VerifierClient(lambda: [broker.bootstrap for broker in cluster.brokers.values() if broker.is_up])
    yield asking
    asking.close()


def test_each_partitions_requests_go_to_its_leader(cluster: InProcessCluster, verifier_client: VerifierClient) -> None:
    for partition in range(3):
        batch = build_batch([SimpleRecord(None, b"v", 0)])
        request = ProduceRequest(None, -1, 10_000, [TopicProduceData("t", partition_data=[PartitionProduceData(partition, batch)])])
        answer = verifier_client.ask(
            verifier_client.leader("t", partition), request, 9, lambda answer: answer.responses[0].partition_responses[0]
        )
        assert answer.base_offset == 0
        assert cluster.topics.end_offset("t", partition) == 1


def test_coordinator_is_awaited_while_its_topic_is_created(verifier_client: VerifierClient) -> None:
    assert verifier_client.coordinator(BY_GROUP, "g")() is verifier_client.coordinator(BY_GROUP, "g")()


def test_non_retriable_error_is_raised(verifier_client: VerifierClient) -> None:
    request = CreateTopicsRequest([CreatableTopic("not/a/name", 1, 1)])
    with pytest.raises(RuntimeError, match="INVALID_TOPIC_EXCEPTION"):
        verifier_client.ask(verifier_client.leader("t", 0), request, 5, lambda answer: answer.topics[0])


def test_no_running_broker_is_a_connection_error() -> None:
    with pytest.raises(ConnectionError, match="no broker is up"):
        VerifierClient(list).leader("t", 0)()

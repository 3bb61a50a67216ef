"""Responses with metadata of several brokers (`ClusterBrokerView`): leaders, addresses and unreachable partitions."""

from __future__ import annotations

import pytest

from ottla.broker.api.k02_list_offsets import CONSUMER, DEBUGGING
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import MetadataRecord, RemoveTopicRecord, TopicRecord
from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS
from ottla.broker.core.java_hash import partition_of
from ottla.broker.replication.leadership import Registration
from ottla.broker.runtime.metadata.cluster_broker_view import ClusterBrokerView
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k10_find_coordinator import Coordinator, FindCoordinatorRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.k74_list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.k75_describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.cluster_broker_dirs import broker as registered
from tests.support.cluster_broker_dirs import change, partition
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create

ID, OFFSETS_ID = b"i" * 16, b"o" * 16
ELSEWHERE = {"INTERNAL": ("h4", 9092)}
CLUSTER: list[MetadataRecord] = [
    registered(1),
    registered(2),
    registered(3, fenced=True),
    registered(4, listeners=ELSEWHERE),
    TopicRecord("c", ID),
    partition(ID, 0, [2, 1]),
    partition(ID, 1, [2, 3], leader=2),
    partition(ID, 2, [4, 1]),
    partition(ID, 3, [5, 1]),
    partition(ID, 4, [2, 1], leader=-1),
]


def join(broker: RunningBroker, *records: MetadataRecord) -> None:
    """Apply the metadata of these records to the broker, and let it respond as broker 1 of that cluster."""
    services = broker.broker.services
    services.topics.apply(records)
    services.cluster = ClusterBrokerView(services.topics, services.partitions, 1, choose=max)


@pytest.fixture
def client(broker: RunningBroker, client: Client) -> Client:
    """A connection to the broker, which belongs to a cluster."""
    join(broker, *CLUSTER)
    return client


NONE, NO_LEADER, NO_LISTENER = ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND


@pytest.mark.parametrize("version", [0, 1, 5, 6, 13])
def test_metadata_has_live_brokers_and_each_partitions_leader(client: Client, version: int) -> None:
    response = client.call(MetadataRequest([MetadataRequestTopic(name="c")]), version=version)
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [(1, "h1", 9092), (2, "h2", 9092)]
    partitions = response.topics[0].partitions
    assert [each.leader_id for each in partitions] == [2, 2, -1, -1, -1]
    if version == 0:
        unreachable = ErrorCode.REPLICA_NOT_AVAILABLE
        assert [each.error_code for each in partitions] == [NONE, unreachable, NO_LEADER, NO_LEADER, NO_LEADER]
        assert [each.replica_nodes for each in partitions] == [[2, 1], [2], [1], [1], [2, 1]]
        return
    assert response.controller_id == 4, "one that lives, wherever it listens"
    listener = NO_LISTENER if version >= 6 else NO_LEADER
    assert [each.error_code for each in partitions] == [NONE, NONE, listener, NO_LEADER, NO_LEADER]
    assert [each.replica_nodes for each in partitions] == [[2, 1], [2, 3], [4, 1], [5, 1], [2, 1]]
    if version >= 5:
        assert [each.offline_replicas for each in partitions] == [[], [3], [4], [5], []]


def test_describe_cluster_returns_fenced_brokers_on_request(client: Client) -> None:
    responses = [client.call(DescribeClusterRequest(include_fenced_brokers=fenced), version=2) for fenced in (False, True)]
    assert [[(each.broker_id, each.is_fenced) for each in answer.brokers] for answer in responses] == [
        [(1, False), (2, False)],
        [(1, False), (2, False), (3, True)],
    ]
    assert [broker.broker_id for broker in client.call(DescribeClusterRequest(), version=1).brokers] == [1, 2]


def test_eligible_leader_replicas_are_described_without_an_error(broker: RunningBroker, client: Client) -> None:
    broker.broker.services.topics.apply([change(ID, 4, eligible_leader_replicas=[2], last_known_elr=[1])])
    (topic,) = client.call(DescribeTopicPartitionsRequest([TopicRequest("c")])).topics
    last = topic.partitions[4]
    assert (last.leader_id, last.error_code) == (-1, NONE)
    assert (last.eligible_leader_replicas, last.last_known_elr) == ([2], [1])
    assert topic.partitions[1].offline_replicas == [3]


def coordinators(client: Client, *keys: str, key_type: int = 0) -> list[Coordinator]:
    return client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys)), version=6).coordinators


def test_a_groups_coordinator_is_the_leader_of_its_offsets_partition(broker: RunningBroker, client: Client) -> None:
    leaders = [1, 2, 3, 4, -1]
    records = [partition(OFFSETS_ID, index, [1, 2], leader=leader) for index, leader in enumerate(leaders)]
    join(broker, TopicRecord(CONSUMER_OFFSETS, OFFSETS_ID), *records)
    keys = [f"g{number}" for number in range(20)]
    for found in coordinators(client, *keys):
        leader = leaders[partition_of(found.key, len(leaders))]
        reached = leader in {1, 2}
        assert (found.node_id, found.host, found.port) == ((leader, f"h{leader}", 9092) if reached else (-1, "", -1))
        assert found.error_code == (NONE if reached else ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert {partition_of(key, len(leaders)) for key in keys} == set(range(len(leaders)))


@pytest.mark.parametrize("version", [9, 10, 13])
def test_a_producer_gets_the_current_leader_and_its_address(broker: RunningBroker, version: int) -> None:
    with broker.client() as client:
        topic_id = create(client, "t").topic_id
        join(broker, *CLUSTER)
        moved = broker.broker.services.partitions.get("t", 0)
        moved.follow(Registration(2, (1, 2), (1, 2), 7, 5))
        batch = build_batch([SimpleRecord(None, b"x", 1)])
        topic_data = [TopicProduceData("t", topic_id, [PartitionProduceData(0, batch)])]
        response = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topic_data), version=version)
    (answer,) = response.responses[0].partition_responses
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    leader = (answer.current_leader.leader_id, answer.current_leader.leader_epoch)
    nodes = [(node.node_id, node.host, node.port) for node in response.node_endpoints]
    assert (leader, nodes) == (((2, 7), [(2, "h2", 9092)]) if version >= 10 else ((-1, -1), []))


@pytest.mark.parametrize(("index", "leader", "nodes"), [(0, 2, [2]), (1, 3, [])])
def test_a_consumer_gets_the_current_leader_and_its_address_only_if_it_is_alive(
    broker: RunningBroker, index: int, leader: int, nodes: list[int]
) -> None:
    with broker.client() as client:
        topic_id = create(client, "t", 2).topic_id
        join(broker, *CLUSTER)
        broker.broker.services.partitions.get("t", index).follow(Registration(leader, (1, leader), (1, leader), 7, 5))
        topic = FetchTopic("t", topic_id, [FetchPartition(index, current_leader_epoch=6, partition_max_bytes=1)])
        response = client.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic]), version=16)
    (answer,) = response.responses[0].partitions
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (leader, 7)
    assert [node.node_id for node in response.node_endpoints] == nodes


@pytest.mark.parametrize("version", [4, 11])
def test_a_debugging_client_gets_a_followers_end_offset_with_the_leader_epoch(broker: RunningBroker, version: int) -> None:
    with broker.client() as client:
        create(client, "t")
        broker.broker.services.partitions.get("t", 0).follow(Registration(2, (1, 2), (1, 2), 7, 5))
        answers = {}
        for replica in (DEBUGGING, CONSUMER):
            response = client.call(
                ListOffsetsRequest(replica, topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])]), version
            )
            (answers[replica],) = response.topics[0].partitions
    end = answers[DEBUGGING]
    assert (end.error_code, end.offset, end.leader_epoch) == (NONE, 0, 7)
    assert answers[CONSUMER].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("kind", [ResourceType.BROKER, ResourceType.BROKER_LOGGER])
def test_every_registered_broker_at_the_clients_listener_has_describable_settings(client: Client, kind: ResourceType) -> None:
    listed = client.call(ListConfigResourcesRequest([kind])).config_resources
    assert [(each.resource_name, each.resource_type) for each in listed] == [("1", kind), ("2", kind), ("3", kind)]


def test_a_follower_gets_the_current_leader_without_an_address(broker: RunningBroker) -> None:
    with broker.client() as client:
        topic_id = create(client, "t").topic_id
        join(broker, *CLUSTER)
        broker.broker.services.partitions.get("t", 0).follow(Registration(2, (1, 2), (1, 2), 7, 5))
        topic = FetchTopic("t", topic_id, [FetchPartition(0, current_leader_epoch=7, partition_max_bytes=1)])
        response = client.call(FetchRequest(replica_state=ReplicaState(3, 1), max_wait_ms=0, topics=[topic]), version=16)
    (answer,) = response.responses[0].partitions
    assert (answer.error_code, answer.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    assert response.node_endpoints == []


def test_a_topic_that_was_removed_from_the_metadata_is_unknown(broker: RunningBroker, client: Client) -> None:
    broker.broker.services.topics.apply([RemoveTopicRecord(ID)])
    response = client.call(MetadataRequest([MetadataRequestTopic(name="c")], allow_auto_topic_creation=False))
    assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

"""A cluster broker's requests to Apache Kafka's controller: over links, through the channel, and in envelopes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from client_compat.kafka.reference import NEW_CLUSTER_ID, NODE_ID, ReferenceBroker
from client_compat.support.brokers import HOST
from ottla.broker.api.routes import FORWARDABLE
from ottla.broker.app import Broker
from ottla.broker.cluster.features import REGISTERED
from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.config_op import OpType
from ottla.broker.core.clock import Clock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings_load import load
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Faults
from ottla.broker.net.network import Sockets
from ottla.broker.net.node_client import NodeClient
from ottla.broker.runtime.nodes.controller_channel import ControllerChannel
from ottla.broker.runtime.nodes.link import Node, UnsupportedByPeer
from ottla.broker.runtime.nodes.remote_topics import RemoteTopics
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k44_incremental_alter_configs as incremental
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.k55_describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.registration import Feature, Listener
from ottla.protocol.schema import Message
from tests.support.apache_kafka import jars_or_skip
from tests.support.cluster_members import Member
from tests.support.group_calls import wait_until_async

OWN_ID = 7
TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceBroker]:
    jars_or_skip()
    with ReferenceBroker(tmp_path_factory.mktemp("kafka") / "data", {"num.partitions": "3"}) as running:
        yield running


class Harness:
    """An Ottla broker with its own directory, and a channel to Kafka's controller."""

    def __init__(self, kafka: ReferenceBroker, data_dir: Path) -> None:
        self.kafka = kafka
        self.controller = Node(NODE_ID, HOST, kafka.controller_port)
        self.clock, self.timers = Clock(), Timers()
        self.driver = TimerDriver(self.timers, self.clock)
        self.driver.start()
        self.channel = ControllerChannel(
            self.connect, lambda: self.controller, clock=self.clock, timers=self.timers, name="test", retry_timeout_ms=TIMEOUT_MS
        )
        settings = {"log.dir": str(data_dir), "listeners": f"PLAINTEXT://{HOST}:0", "node.id": str(OWN_ID)}
        self.broker = Broker(load(settings, {}, None).settings, Faults())

    def connect(self, node: Node) -> NodeClient:
        return NodeClient(node, Sockets(), clock=self.clock, timers=self.timers, random=Random(1), client_id=str(OWN_ID))

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """Return the response that a client of the Ottla broker gets."""
        return await self.member.ask(request, type(request).MAX_VERSION if version is None else version)

    def ask_kafka(self, request: Message, version: int | None = None) -> Any:
        with Client(HOST, self.kafka.port) as client:
            return client.call(request, version)

    def remote_topics(self, broker_epoch: int = -1) -> RemoteTopics:
        broker = self.broker
        nursery = Nursery(self.timers, self.clock, pytest.fail)
        return RemoteTopics(self.channel, broker.services.topics, broker.settings, lambda: broker_epoch, nursery=nursery)


@pytest.fixture
async def harness(kafka: ReferenceBroker, tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(kafka, tmp_path / "data")
    await harness.broker.start()
    harness.member = Member(harness.broker, harness.channel)
    yield harness
    harness.channel.close()
    await harness.broker.stop()
    harness.driver.stop()


async def test_node_client_calls_kafkas_controller_and_broker_listeners(harness: Harness) -> None:
    at_controller, at_broker = harness.connect(harness.controller), harness.connect(Node(-1, HOST, harness.kafka.port))
    described = await at_controller.call(DescribeClusterRequest(endpoint_type=2), timeout_ms=TIMEOUT_MS)
    assert (described.error_code, described.cluster_id) == (0, NEW_CLUSTER_ID)
    assert [broker.port for broker in described.brokers] == [harness.kafka.controller_port]
    assert at_controller.versions(ApiKey.BROKER_REGISTRATION) == (0, 4)
    with pytest.raises(UnsupportedByPeer):
        await at_controller.call(MetadataRequest(topics=[]), timeout_ms=TIMEOUT_MS)
    response = await at_broker.call(MetadataRequest(topics=[]), timeout_ms=TIMEOUT_MS)
    assert [broker.port for broker in response.brokers] == [harness.kafka.port]
    at_controller.close()
    at_broker.close()


async def test_topic_changes_of_this_brokers_clients_are_made_by_kafkas_controller(harness: Harness) -> None:
    create = CreateTopicsRequest([CreatableTopic("made", 2, 1), CreatableTopic("no/name", 1, 1)])
    made, refused = (await harness.ask(create)).topics
    assert (made.error_code, made.num_partitions, refused.error_code) == (0, 2, ErrorCode.INVALID_TOPIC_EXCEPTION)
    (again, _) = (await harness.ask(create, 5)).topics
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    (grown,) = (await harness.ask(CreatePartitionsRequest([CreatePartitionsTopic("made", 4, None)], TIMEOUT_MS))).results
    assert grown.error_code == 0
    (deleted,) = (await harness.ask(DeleteTopicsRequest([DeleteTopicState("made")], timeout_ms=TIMEOUT_MS))).responses
    assert (deleted.error_code, deleted.topic_id) == (0, made.topic_id)


async def test_quorum_and_reassignment_requests_are_answered_by_kafkas_controller(harness: Harness) -> None:
    await harness.ask(CreateTopicsRequest([CreatableTopic("moved", 1, 1)]))
    quorum = await harness.ask(DescribeQuorumRequest([TopicData("__cluster_metadata", [PartitionData(0)])]))
    assert quorum.topics[0].partitions[0].leader_id == NODE_ID
    assert (await harness.ask(ListPartitionReassignmentsRequest(topics=None))).topics == []
    elected = await harness.ask(ElectLeadersRequest(topic_partitions=[TopicPartitions("moved", [0])]))
    assert elected.replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED
    cancelled = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("moved", [ReassignablePartition(0, None)])])
    answer = await harness.ask(cancelled)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    features = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("group.version", 99)], validate_only=True)
    assert (await harness.ask(features)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert (await harness.ask(UnregisterBrokerRequest(99))).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_config_changes_reach_kafkas_controller_except_this_brokers_own(harness: Harness) -> None:
    await harness.ask(CreateTopicsRequest([CreatableTopic("set", 1, 1)]))

    def change(kind: int, name: str, key: str, value: str) -> incremental.AlterConfigsResource:
        return incremental.AlterConfigsResource(kind, name, [incremental.AlterableConfig(key, OpType.SET, value)])

    resources = [
        change(ResourceType.TOPIC, "set", "retention.ms", "12345"),
        change(ResourceType.BROKER, str(NODE_ID), "max.connections", "5"),
        change(ResourceType.TOPIC, "absent", "retention.ms", "12345"),
    ]
    answers = (await harness.ask(incremental.IncrementalAlterConfigsRequest(resources))).responses
    assert [answer.error_code for answer in answers] == [0, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    describe = DescribeConfigsRequest([DescribeConfigsResource(ResourceType.TOPIC, "set", ["retention.ms"])])
    await wait_until_async(lambda: harness.ask_kafka(describe).results[0].configs[0].value == "12345", "Kafka's broker has read it")


async def test_api_versions_lists_forwardable_apis_like_kafkas_broker(harness: Harness) -> None:
    await harness.ask(ListPartitionReassignmentsRequest(topics=None))

    def those(response: Any) -> dict[int, tuple[int, int]]:
        return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys if api.api_key in FORWARDABLE}

    ours = await harness.ask(ApiVersionsRequest("test", "1"), version=4)
    assert those(ours) == those(harness.ask_kafka(ApiVersionsRequest("test", "1"), version=4))


async def test_missing_topics_are_created_by_kafkas_controller_with_its_defaults(harness: Harness) -> None:
    topics = harness.remote_topics()
    assert await topics.auto_create(["needed", "__transaction_state"]) == {"needed": None, "__transaction_state": None}
    assert await topics.auto_create(["needed"]) == {"needed": None}
    request = MetadataRequest([MetadataRequestTopic(name="needed"), MetadataRequestTopic(name="__transaction_state")])
    made = [3, harness.broker.settings.transaction_state_log_num_partitions]
    # Kafka's broker applies its controller's decisions a moment later.
    await wait_until_async(
        lambda: [len(topic.partitions) for topic in harness.ask_kafka(request).topics] == made, "Kafka's broker knows both"
    )


async def test_blocks_of_producer_ids_are_given_to_a_registered_broker_only(harness: Harness) -> None:
    stale = f"error {ErrorCode.STALE_BROKER_EPOCH.value} "
    with pytest.raises(Rejected, match=stale):
        await harness.remote_topics(broker_epoch=5).allocate_producer_ids()
    features = [Feature(name, *levels) for name, levels in REGISTERED.items()]
    registered = await harness.channel.call(
        BrokerRegistrationRequest(
            OWN_ID, NEW_CLUSTER_ID, bytes(range(16)), [Listener("PLAINTEXT", HOST, 9092)], features, None, log_dirs=[bytes(range(1, 17))]
        )
    )
    assert registered.error_code == 0
    topics = harness.remote_topics(registered.broker_epoch)
    first, second = [await topics.allocate_producer_ids() for _ in range(2)]
    assert len(first) == len(second) == 1000
    assert first.stop <= second.start
    with pytest.raises(Rejected, match=stale):
        await harness.remote_topics(registered.broker_epoch + 1).allocate_producer_ids()


async def test_forwarded_request_waits_for_a_killed_controller_to_restart(harness: Harness) -> None:
    await harness.ask(CreateTopicsRequest([CreatableTopic("before", 1, 1)]))
    harness.kafka.kill()
    waiting = asyncio.ensure_future(harness.ask(CreateTopicsRequest([CreatableTopic("after", 1, 1), CreatableTopic("before", 1, 1)])))
    await asyncio.to_thread(harness.kafka.start)
    after, before = (await waiting).topics
    assert (after.error_code, before.error_code) == (0, ErrorCode.TOPIC_ALREADY_EXISTS)

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_records import PartitionRecord, TopicRecord
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.principal import Principal
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings_load import load
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.metadata.producer_ids import NoProducerId, ProducerIds
from ottla.broker.runtime.metadata.topic_making import Requester
from ottla.broker.runtime.nodes.controller_channel import ControllerChannel
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.nodes.remote_topics import REFUSED_MS, RemoteTopics
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k19_create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsResponse
from ottla.protocol.principal import read_principal
from tests.support.node_links import LinkHarness
from tests.support.simulation import settle

CONTROLLER = Node(3000, "controller", 9093)
SERVED = {ApiKey.CREATE_TOPICS: (2, 7), ApiKey.ENVELOPE: (0, 0), ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0)}


class Member(LinkHarness):
    """Broker 7 with broker epoch 42, whose controller responds with `answers` in order."""

    async def begin(self, *answers: Any, **settings: str) -> RemoteTopics:
        left = list(answers)
        self.controller = await self.answering(CONTROLLER, lambda request: left.pop(0) if left else None, SERVED)
        self.channel = ControllerChannel(
            self.connect, lambda: CONTROLLER, clock=self.clock, timers=self.timers, name="test", retry_timeout_ms=60_000
        )
        self.catalog = Catalog()
        given = {name.replace("_", "."): value for name, value in settings.items()}
        member = {
            "process.roles": "broker",
            "node.id": "7",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "controller:9093",
        }
        loaded = load({**member, **given}, {}, None).settings
        self.topics = RemoteTopics(self.channel, self.catalog, loaded, lambda: 42, nursery=self.nursery)
        return self.topics

    @property
    def requests(self) -> list[Any]:
        return [request.body for request in self.controller.requests]


def made(*names: str, error: int = 0) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name, error_code=error) for name in names])


@pytest.fixture
async def member() -> AsyncIterator[Member]:
    member = Member()
    yield member
    await member.nursery.stop()
    member.channel.close()
    await settle()


async def test_auto_created_topics_leave_unset_counts_to_the_controller(member: Member) -> None:
    topics = await member.begin(made("a"))
    assert await topics.auto_create(["a"]) == {"a": None}
    (wanted,) = member.requests[0].topics
    assert (wanted.name, wanted.num_partitions, wanted.replication_factor, wanted.configs) == ("a", -1, -1, [])


async def test_auto_created_topics_request_the_counts_set_on_this_broker(member: Member) -> None:
    topics = await member.begin(made("a"), num_partitions="5", default_replication_factor="2")
    await topics.auto_create(["a"])
    (wanted,) = member.requests[0].topics
    assert (wanted.num_partitions, wanted.replication_factor) == (5, 2)


async def test_internal_topics_are_requested_with_this_brokers_counts_and_settings(member: Member) -> None:
    topics = await member.begin(
        made("__consumer_offsets", "__transaction_state"),
        offsets_topic_num_partitions="4",
        offsets_topic_replication_factor="2",
        transaction_state_log_num_partitions="3",
        transaction_state_log_replication_factor="1",
    )
    await topics.auto_create(["__consumer_offsets", "__transaction_state"])
    offsets, transactions = member.requests[0].topics
    assert (offsets.num_partitions, offsets.replication_factor) == (4, 2)
    assert ("cleanup.policy", "compact") in [(config.name, config.value) for config in offsets.configs]
    assert (transactions.num_partitions, transactions.replication_factor) == (3, 1)
    assert "min.insync.replicas" in [config.name for config in transactions.configs]


class ClientPeer(NamedTuple):
    host: str = "10.0.0.9"
    principal: Principal = Principal("User", "ann")
    token_authenticated: bool = True


async def test_a_clients_topic_is_requested_in_an_envelope(member: Member) -> None:
    topics = await member.begin()
    topics.begin_auto_create(["a"], Requester(ClientPeer(), "app", lambda _: None))
    await settle()
    (envelope,) = member.requests
    who = read_principal(bytes(envelope.request_principal))
    assert (who.type, who.name, who.token_authenticated) == ("User", "ann", True)
    assert bytes(envelope.client_host_address) == bytes([10, 0, 0, 9])
    inside = decode_request(envelope.request_data)
    assert (inside.header.client_id, inside.header.api_version, [topic.name for topic in inside.body.topics]) == ("app", 7, ["a"])


@pytest.mark.parametrize(("code", "there"), [(ErrorCode.TOPIC_ALREADY_EXISTS, True), (ErrorCode.INVALID_REPLICATION_FACTOR, False)])
async def test_a_topic_that_another_broker_created_counts_as_success(member: Member, code: ErrorCode, there: bool) -> None:
    topics = await member.begin(made("a", error=code))
    answers = await topics.auto_create(["a"])
    assert (answers["a"] is None) == there


async def test_each_topic_has_at_most_one_creation_in_flight(member: Member) -> None:
    topics = await member.begin()
    topics.begin_auto_create(["a"])
    topics.begin_auto_create(["a"])
    await settle()
    assert [[topic.name for topic in request.topics] for request in member.requests] == [["a"]]


async def test_a_missing_topic_is_retriable_until_the_metadata_log_has_it(member: Member) -> None:
    topics = await member.begin(made("a"))
    for _ in range(2):
        with pytest.raises(Rejected) as refused:
            await topics.ensure("a")
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await settle()
    assert len(member.requests) == 1
    topic_id = bytes(range(16))
    partition = PartitionRecord(0, topic_id, replicas=[7], isr=[7], leader=7)
    member.catalog.apply([TopicRecord("a", topic_id), partition])
    assert (await topics.ensure("a")).topic_id == topic_id


async def test_a_creation_without_a_controller_times_out(member: Member) -> None:
    topics = await member.begin()
    creation = asyncio.ensure_future(topics.auto_create(["a"]))
    await settle()
    for _ in range(2):
        await member.pass_ms(30_000)
        await member.pass_ms(100)
    refused = await member.outcome(creation)
    assert isinstance(refused, Rejected)
    assert refused.code is ErrorCode.REQUEST_TIMED_OUT


async def test_producer_id_blocks_are_requested_with_the_broker_epoch(member: Member) -> None:
    topics = await member.begin(
        AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000),
        AllocateProducerIdsResponse(producer_id_start=5000, producer_id_len=1000),
    )
    assert [await topics.allocate_producer_ids() for _ in range(2)] == [range(1000, 2000), range(5000, 6000)]
    assert (member.requests[0].broker_id, member.requests[0].broker_epoch) == (7, 42)


@pytest.mark.parametrize(
    "wrong",
    [
        AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        AllocateProducerIdsResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED),
        AllocateProducerIdsResponse(producer_id_start=1999, producer_id_len=1000),
        AllocateProducerIdsResponse(producer_id_start=-1, producer_id_len=1000),
        AllocateProducerIdsResponse(producer_id_start=2000, producer_id_len=-1),
        AllocateProducerIdsResponse(producer_id_start=2000, producer_id_len=0),
        AllocateProducerIdsResponse(producer_id_start=2**63 - 5, producer_id_len=1000),
    ],
)
async def test_an_error_or_invalid_block_allocates_no_producer_id(member: Member, wrong: AllocateProducerIdsResponse) -> None:
    topics = await member.begin(AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000), wrong)
    await topics.allocate_producer_ids()
    allocation = asyncio.ensure_future(topics.allocate_producer_ids())
    await settle()
    await member.pass_ms(REFUSED_MS)
    refused = await member.outcome(allocation)
    assert isinstance(refused, Rejected)
    assert refused.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_refused_block_request_is_repeated_only_after_a_pause(member: Member) -> None:
    refusal = AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    topics = await member.begin(refusal, AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000))
    ids = ProducerIds(topics.allocate_producer_ids, Nursery(Timers(), VirtualClock(), lambda _: None), local=False)
    for ms in (0, 1, REFUSED_MS - 2):
        await member.pass_ms(ms)
        with pytest.raises(NoProducerId):
            ids.generate()
        await settle()
        assert len(member.requests) == 1
    await member.pass_ms(1)
    with pytest.raises(NoProducerId):
        ids.generate()
    await settle()
    assert (ids.generate(), len(member.requests)) == (1000, 2)

"""The requests that fault rules and observers meet at a gateway, and those that pass them. What rules do: tests/scenario/test_faults.py."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Exchange, Faults
from ottla.broker.faults.rules import NEEDS_A_BROKER, parse_rule
from ottla.broker.faults.wire_log import document
from ottla.broker.gateway.address_book import AddressBook, ClientsView
from ottla.broker.gateway.interception import Interception
from ottla.broker.gateway.session import GatewaySession
from ottla.protocol.codec import decode_response, encode_request, encode_response
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest

BOOK = AddressBook([], lambda node_id: 20_000 + node_id)
TOPIC_ID = bytes(range(16))


class Harness:
    """One connection through a gateway with fault rules; the test plays the client and the cluster."""

    def __init__(self, *rules: str) -> None:
        self.faults = Faults(map(parse_rule, rules), refused=NEEDS_A_BROKER)
        self.interception = Interception(self.faults, Clock(), Timers(), BOOK.topic_name)
        self.to_client, self.to_cluster = b"", b""
        self.session = GatewaySession(ClientsView(BOOK, "gw"), self.interception, 1, self.changed)

    def changed(self) -> None:
        self.session.resume()
        self.take()

    def take(self) -> None:
        self.to_client += b"".join(self.session.take_to_client())
        self.to_cluster += b"".join(self.session.take_to_cluster())

    async def ask(self, data: bytes) -> None:
        self.session.from_client(data)
        await self.settled()

    async def answer(self, data: bytes) -> None:
        self.session.from_cluster(data)
        await self.settled()

    async def settled(self) -> None:
        self.take()
        for _ in range(10):
            await asyncio.sleep(0)


def request(message: Any, version: int, correlation_id: int) -> bytes:
    return b"".join(encode_request(message.API_KEY, version, correlation_id, "me", message))


def response(message: Any, version: int, correlation_id: int) -> bytes:
    return b"".join(encode_response(message.API_KEY, version, correlation_id, message))


ANY = struct.pack(">ihhih", 10, 999, 0, 7, -1)
BEAT = request(HeartbeatRequest("g"), 4, 1)
BEATEN = response(HeartbeatResponse(), 4, 1)
ODDLY_BEATEN = struct.pack(">i", len(BEATEN)) + BEATEN[4:-1] + b"\x01\x63\x02ab"
"""The same with an unknown tagged field of four bytes more."""


async def test_request_is_intercepted_only_while_rules_are_loaded() -> None:
    harness = Harness("error:api=Heartbeat,code=27,name=e")
    await harness.ask(BEAT)
    assert (harness.to_cluster, harness.to_client) == (b"", response(HeartbeatResponse(error_code=27), 4, 1))
    harness.faults.reset()
    await harness.ask(BEAT)
    assert harness.to_cluster == BEAT


async def test_unknown_apis_and_authentication_pass_beside_rules() -> None:
    harness = Harness("drop-request")
    sasl = struct.pack(">ihhih", 10, 36, 2, 8, -1)
    await harness.ask(ANY + sasl)
    assert harness.to_cluster == ANY + sasl


async def test_requests_behind_an_intercepted_one_that_waits_for_earlier_responses_are_not_read_without_limit() -> None:
    harness = Harness("throttle:api=Heartbeat,ms=5")
    await harness.ask(ANY + BEAT + ANY)
    assert not harness.session.is_full
    await harness.ask(ANY * (limits.READ_CHUNK_BYTES // len(ANY)))
    assert harness.session.is_full


async def test_intercepted_request_waits_for_earlier_responses_and_later_requests_wait_for_it() -> None:
    harness = Harness("throttle:api=Heartbeat,ms=5")
    await harness.ask(ANY + BEAT + ANY)
    assert harness.to_cluster == ANY
    await harness.answer(struct.pack(">ii", 4, 7))
    assert harness.to_cluster == ANY + BEAT
    await harness.answer(BEATEN)
    assert harness.to_cluster == ANY + BEAT + ANY
    assert harness.to_client == struct.pack(">ii", 4, 7) + response(HeartbeatResponse(throttle_time_ms=5), 4, 1)


async def test_a_response_that_no_rule_hits_keeps_its_bytes() -> None:
    harness = Harness("drop-ack:api=Produce")
    await harness.ask(BEAT)
    await harness.answer(ODDLY_BEATEN)
    assert harness.to_client == ODDLY_BEATEN


async def test_observers_get_the_original_size_of_a_response() -> None:
    harness, seen = Harness("throttle:ms=5,after=1"), list[Exchange]()
    harness.faults.observe(seen.append)
    for _ in range(2):
        await harness.ask(BEAT)
        await harness.answer(ODDLY_BEATEN)
    assert [document(each)["response_bytes"] for each in seen] == [len(ODDLY_BEATEN), len(BEATEN)], "the second one was changed by a rule"


@pytest.mark.parametrize(
    "rule", ["error:api=Fetch,code=3", "corrupt", "error:api=Heartbeat,group=other,code=27", "refuse-connection", "stale-metadata:ms=9"]
)
async def test_response_that_no_rule_can_hit_passes_undecoded_and_its_requests_are_pipelined(rule: str) -> None:
    harness, undecodable = Harness(rule), struct.pack(">ii", 6, 1) + b"\xff\xff"
    await harness.ask(BEAT + ANY)
    assert harness.to_cluster == BEAT + ANY
    await harness.answer(undecodable)
    assert harness.to_client == undecodable


async def test_request_without_a_response_is_forwarded_and_the_next_one_follows() -> None:
    harness, seen = Harness(), list[Exchange]()
    harness.faults.observe(seen.append)
    silent = request(ProduceRequest(acks=0, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"r")])]), 9, 3)
    await harness.ask(silent + BEAT)
    await harness.answer(BEATEN)
    assert harness.to_cluster == silent + BEAT
    assert harness.to_client == BEATEN
    assert [(each.subject.api.name, each.response is None) for each in seen] == [("PRODUCE", True), ("HEARTBEAT", False)]


async def test_rules_match_topics_by_ids_learned_from_metadata() -> None:
    harness = Harness("error:api=Produce,topic=orders,code=NOT_LEADER_OR_FOLLOWER")
    named = MetadataResponse(brokers=[MetadataResponseBroker(1, "a", 1)], topics=[MetadataResponseTopic(name="orders", topic_id=TOPIC_ID)])
    produced = ProduceRequest(acks=-1, topic_data=[TopicProduceData(topic_id=TOPIC_ID, partition_data=[PartitionProduceData(0, b"r")])])
    await harness.ask(request(MetadataRequest(None), 12, 1))
    await harness.answer(response(named, 12, 1))
    await harness.ask(request(produced, 13, 2))
    assert harness.faults.rules[0].hits == 1


def large_metadata() -> MetadataResponse:
    partitions = [MetadataResponsePartition(0, index, 1, 1, [1, 2, 3], [1, 2, 3]) for index in range(10_000)]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(1, "a", 1)], topics=[MetadataResponseTopic(0, "t", TOPIC_ID, partitions=partitions)]
    )


class HeldThreads(ThreadPoolExecutor):
    """An executor whose work is done when the test calls `run`."""

    def __init__(self) -> None:
        super().__init__(1)
        self.works: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        self.works.append((future, partial(fn, *args, **kwargs)))
        return future

    def run(self) -> None:
        future, work = self.works.pop()
        try:
            future.set_result(work())
        except ProtocolError as error:
            future.set_exception(error)


@pytest.fixture
async def threads() -> HeldThreads:
    held = HeldThreads()
    asyncio.get_running_loop().set_default_executor(held)
    return held


async def test_other_connections_are_served_while_a_response_of_10000_partitions_is_decoded_and_encoded(threads: HeldThreads) -> None:
    harness, other = Harness("throttle:ms=5"), Harness("throttle:ms=5")
    await harness.ask(request(MetadataRequest(None), 12, 1) + BEAT)
    await harness.answer(response(large_metadata(), 12, 1))
    for _ in ("decode", "encode"):
        other.to_client = b""
        await other.ask(BEAT)
        await other.answer(BEATEN)
        assert other.to_client == response(HeartbeatResponse(throttle_time_ms=5), 4, 1)
        assert (harness.to_client, BEAT in harness.to_cluster) == (b"", False)
        threads.run()
        await harness.settled()
    got = decode_response(3, 12, harness.to_client[4:])[1]
    assert (got.throttle_time_ms, got.brokers[0].host, got.topics) == (5, "gw", large_metadata().topics)
    assert BEAT in harness.to_cluster


async def test_one_large_response_is_decoded_at_a_time_and_the_next_one_while_it_is_encoded(threads: HeldThreads) -> None:
    harness, other = Harness("throttle:ms=5"), Harness()
    other.session = GatewaySession(ClientsView(BOOK, "gw"), harness.interception, 2, other.changed)
    for each in (harness, other):
        await each.ask(request(MetadataRequest(None), 12, 1))
        await each.answer(response(large_metadata(), 12, 1))
    waiting = []
    while threads.works:
        waiting.append(len(threads.works))
        threads.run()
        await harness.settled()
    assert waiting == [1, 2, 2, 1], "to decode one, to encode it and to decode the other, to encode both, to encode one"
    other.take()
    assert len(harness.to_client) == len(other.to_client) > limits.DECODED_AT_ONCE_BYTES


@pytest.mark.parametrize("size", [20, 20_000])
async def test_a_response_that_cannot_be_decoded_ends_the_connection(threads: HeldThreads, size: int) -> None:
    harness = Harness("throttle:api=Heartbeat,ms=5")
    await harness.ask(BEAT)
    await harness.answer(struct.pack(">ii", size, 1) + b"\xff" * (size - 4))
    if size > limits.DECODED_AT_ONCE_BYTES:
        threads.run()
        await harness.settled()
    assert (harness.session.ends, harness.to_client) == (True, b"")


async def test_late_request_keeps_the_cluster_connection_until_it_is_answered() -> None:
    harness = Harness("late-request:api=Heartbeat,name=late")
    await harness.ask(BEAT)
    assert (harness.session.ends, harness.session.needs_cluster, harness.to_cluster) == (True, True, b"")
    harness.faults.release("late")
    await harness.settled()
    assert harness.to_cluster == BEAT
    await harness.answer(BEATEN)
    assert not harness.session.needs_cluster
    assert harness.to_client == b""


@pytest.mark.parametrize("when", ["asked", "held"])
async def test_closed_cluster_connection_ends_intercepted_requests(when: str) -> None:
    harness = Harness("hold-request:name=h" if when == "held" else "throttle:ms=1")
    await harness.ask(BEAT)
    harness.session.lose_cluster()
    harness.faults.release()
    await harness.settled()
    assert harness.session.ends
    assert not harness.session.needs_cluster


async def test_api_versions_of_an_older_cluster_is_answered_in_its_version() -> None:
    harness = Harness("throttle:api=Produce,ms=1")
    refused = struct.pack(">iihi", 10, 5, 35, 0)
    await harness.ask(request(ApiVersionsRequest("a", "1"), 4, 5))
    await harness.answer(refused)
    assert harness.to_client == refused


async def test_stop_ends_every_intercepted_request() -> None:
    harness = Harness("swallow")
    await harness.ask(BEAT)
    await harness.answer(BEATEN)
    await harness.interception.stop()
    await harness.settled()
    assert harness.session.ends

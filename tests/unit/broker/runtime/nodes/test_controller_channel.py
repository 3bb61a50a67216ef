from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from ottla.broker.api.context import Listener, Peer
from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.net.client_security import ClientSasl, ClientSecurity
from ottla.broker.net.secured_node_client import SecuredNodeClient
from ottla.broker.runtime.nodes.controller_channel import ControllerAuthenticationFailed, ControllerChannel, ControllerUnreachable
from ottla.broker.runtime.nodes.envelopes import EnvelopeForwarding
from ottla.broker.runtime.nodes.link import Node, UnsupportedByPeer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import EncodeError
from ottla.protocol.login import tokens_of
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeResponse
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse, PartitionResult, TopicResult
from ottla.protocol.messages.k58_envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.schema import Message
from tests.support.answering_node import HANG_UP
from tests.support.node_links import LinkHarness
from tests.support.simulation import settle

FIRST, SECOND = Node(3000, "first", 9093), Node(3001, "second", 9093)
SERVED = {ApiKey.BROKER_HEARTBEAT: (0, 2), ApiKey.ALTER_PARTITION: (2, 3), ApiKey.CREATE_TOPICS: (2, 7), ApiKey.ENVELOPE: (0, 0)}
NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER


def beat(number: int) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(broker_id=number)


def same(request: Request) -> Any:
    return BrokerHeartbeatResponse(throttle_time_ms=request.body.broker_id)


class Cluster(LinkHarness):
    """A channel to the controller, and the node that metadata names as the controller."""

    def __init__(self, retry_timeout_ms: int | None = 60_000) -> None:
        super().__init__()
        self.controller: Node | None = FIRST
        self.channel = self.new_channel(retry_timeout_ms)

    def new_channel(self, retry_timeout_ms: int | None) -> ControllerChannel:
        return ControllerChannel(
            self.connect, lambda: self.controller, clock=self.clock, timers=self.timers, name="test", retry_timeout_ms=retry_timeout_ms
        )

    def ask(self, request: Message) -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.channel.call(request))


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


async def test_a_new_controller_gets_the_waiting_request_without_a_pause(cluster: Cluster) -> None:
    cluster.controller = None
    await cluster.answering(FIRST, same, SERVED)
    pending = cluster.ask(beat(1))
    await settle()
    assert not pending.done()
    cluster.controller = FIRST
    cluster.channel.look_again()
    await settle()
    assert pending.result() == BrokerHeartbeatResponse(throttle_time_ms=1)


async def test_requests_are_sent_one_at_a_time_in_order(cluster: Cluster) -> None:
    held: list[asyncio.Future[Message]] = []

    def hold(request: Request) -> Any:
        held.append(asyncio.get_running_loop().create_future())
        return held[-1]

    first = await cluster.answering(FIRST, hold, SERVED)
    calls = [cluster.ask(beat(number)) for number in range(3)]
    for number in range(3):
        await settle()
        assert [request.body.broker_id for request in first.requests] == list(range(number + 1))
        held[number].set_result(BrokerHeartbeatResponse(throttle_time_ms=number))
        assert (await calls[number]).throttle_time_ms == number


async def test_a_request_waits_until_a_controller_is_known(cluster: Cluster) -> None:
    await cluster.answering(FIRST, same, SERVED)
    cluster.controller = None
    call = cluster.ask(beat(1))
    await settle()
    await cluster.pass_ms(5 * limits.CONTROLLER_DISCOVERY_MS)
    assert await cluster.outcome(call) is None
    cluster.controller = FIRST
    await cluster.pass_ms(limits.CONTROLLER_DISCOVERY_MS)
    assert (await call).throttle_time_ms == 1


@pytest.mark.parametrize(
    ("request_", "refusal", "answer"),
    [
        (beat(1), BrokerHeartbeatResponse(error_code=NOT_CONTROLLER), BrokerHeartbeatResponse()),
        (EnvelopeRequest(), EnvelopeResponse(error_code=NOT_CONTROLLER), EnvelopeResponse()),
        (
            CreateTopicsRequest([CreatableTopic("a"), CreatableTopic("b")]),
            CreateTopicsResponse(topics=[CreatableTopicResult("a"), CreatableTopicResult("b", error_code=NOT_CONTROLLER)]),
            CreateTopicsResponse(),
        ),
        (
            AlterPartitionRequest(),
            AlterPartitionResponse(topics=[TopicResult(), TopicResult(partitions=[PartitionResult(error_code=NOT_CONTROLLER)])]),
            AlterPartitionResponse(),
        ),
    ],
    ids=["in the whole", "in an envelope", "of a topic", "of a partition"],
)
async def test_a_request_is_sent_again_to_the_new_controller_after_not_controller(
    cluster: Cluster, request_: Message, refusal: Message, answer: Message
) -> None:
    def refuse(request: Request) -> Any:
        cluster.controller = SECOND
        return refusal

    first = await cluster.answering(FIRST, refuse, SERVED)
    second = await cluster.answering(SECOND, lambda request: answer, SERVED)
    call = cluster.ask(request_)
    assert await cluster.outcome(call) == answer
    assert [request.body for request in first.requests] == [request.body for request in second.requests] == [request_]
    assert first.connections[0].transport.is_closing()


async def test_a_request_is_first_again_after_a_broken_connection(cluster: Cluster) -> None:
    def fall(request: Request) -> Any:
        cluster.controller = SECOND
        return HANG_UP

    await cluster.answering(FIRST, fall, SERVED)
    second = await cluster.answering(SECOND, same, SERVED)
    calls = [cluster.ask(beat(number)) for number in range(3)]
    assert [(await call).throttle_time_ms for call in calls] == [0, 1, 2]
    assert [request.body.broker_id for request in second.requests] == [0, 1, 2]


async def test_the_same_controller_is_retried_only_after_a_pause(cluster: Cluster) -> None:
    first = await cluster.answering(FIRST, lambda request: BrokerHeartbeatResponse(error_code=NOT_CONTROLLER), SERVED)
    call = cluster.ask(beat(1))
    await settle()
    for times in range(1, 5):
        assert len(first.requests) == times
        await cluster.pass_ms(limits.CONTROLLER_DISCOVERY_MS)
    first.answer = same
    await cluster.pass_ms(limits.CONTROLLER_DISCOVERY_MS)
    assert (await call).throttle_time_ms == 1


async def test_a_refused_connection_is_retried_until_it_is_accepted(cluster: Cluster) -> None:
    call = cluster.ask(beat(1))
    await settle()
    await cluster.pass_ms(3 * limits.CONTROLLER_DISCOVERY_MS)
    await cluster.answering(FIRST, same, SERVED)
    await cluster.pass_ms(limits.CONTROLLER_DISCOVERY_MS)
    assert (await call).throttle_time_ms == 1


async def test_a_request_that_waits_too_long_fails_and_the_next_is_served(cluster: Cluster) -> None:
    cluster.controller = None
    early = cluster.ask(beat(1))
    await settle()
    await cluster.pass_ms(30_000)
    late = cluster.ask(beat(2))
    await settle()
    await cluster.pass_ms(29_999)
    assert await cluster.outcome(early) is None
    await cluster.pass_ms(1)
    assert isinstance(await cluster.outcome(early), ControllerUnreachable)
    first = await cluster.answering(FIRST, same, SERVED)
    cluster.controller = FIRST
    await cluster.pass_ms(limits.CONTROLLER_DISCOVERY_MS)
    assert (await late).throttle_time_ms == 2
    assert [request.body.broker_id for request in first.requests] == [2]


async def test_a_silent_controller_is_given_up_after_the_retry_time() -> None:
    cluster = Cluster(retry_timeout_ms=2_000)
    first = await cluster.answering(FIRST, lambda request: None, SERVED)
    call = cluster.ask(beat(1))
    await settle()
    await cluster.pass_ms(1_999)
    assert await cluster.outcome(call) is None
    await cluster.pass_ms(1)
    assert isinstance(await cluster.outcome(call), ControllerUnreachable)
    assert first.connections[0].transport.is_closing()


async def test_a_request_in_flight_at_its_deadline_may_still_be_answered(cluster: Cluster) -> None:
    held: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    first = await cluster.answering(FIRST, lambda request: held, SERVED)
    cluster.controller = None
    call = cluster.ask(beat(1))
    await settle()
    await cluster.pass_ms(59_000)
    cluster.controller = FIRST
    await cluster.pass_ms(limits.CONTROLLER_DISCOVERY_MS)
    assert len(first.requests) == 1
    await cluster.pass_ms(2_000)
    held.set_result(BrokerHeartbeatResponse(throttle_time_ms=1))
    assert (await call).throttle_time_ms == 1


async def test_without_a_retry_time_a_request_waits_for_ever() -> None:
    cluster = Cluster(retry_timeout_ms=None)
    first = await cluster.answering(FIRST, lambda request: None, SERVED)
    call = cluster.ask(beat(1))
    await settle()
    for _ in range(5):
        await cluster.pass_ms(limits.CONTROLLER_SOCKET_MS)
        await cluster.pass_ms(limits.CONTROLLER_DISCOVERY_MS)
    assert len(first.requests) == 6
    assert await cluster.outcome(call) is None
    cluster.channel.close()


async def test_an_unsupported_api_is_reported_to_the_caller(cluster: Cluster) -> None:
    await cluster.answering(FIRST, same, {ApiKey.BROKER_HEARTBEAT: (0, 2)})
    refused, served = cluster.ask(AlterPartitionRequest()), cluster.ask(beat(1))
    assert isinstance(await cluster.outcome(refused), UnsupportedByPeer)
    assert (await served).throttle_time_ms == 1


async def test_a_request_that_cannot_be_encoded_does_not_block_the_next(cluster: Cluster) -> None:
    await cluster.answering(FIRST, same, SERVED)
    wrong, right = cluster.ask(beat(1 << 40)), cluster.ask(beat(1))
    assert isinstance(await cluster.outcome(wrong), EncodeError)
    assert (await right).throttle_time_ms == 1


async def test_the_controllers_api_versions_stay_known_while_there_is_no_controller(cluster: Cluster) -> None:
    first = await cluster.answering(FIRST, same, SERVED)
    assert cluster.channel.versions(ApiKey.API_VERSIONS) is None
    await cluster.ask(beat(1))
    assert cluster.channel.versions(ApiKey.ALTER_PARTITION) == (2, 3)
    first.stop()
    call = cluster.ask(beat(2))
    await settle()
    await cluster.pass_ms(10 * limits.CONTROLLER_DISCOVERY_MS)
    assert cluster.channel.versions(ApiKey.ALTER_PARTITION) == (2, 3)
    assert cluster.channel.versions(ApiKey.VOTE) is None
    call.cancel()


async def test_closing_the_channel_fails_every_waiting_request(cluster: Cluster) -> None:
    await cluster.answering(FIRST, lambda request: None, SERVED)
    calls = [cluster.ask(beat(number)) for number in range(3)]
    await settle()
    cluster.channel.close()
    assert [type(await cluster.outcome(call)) for call in calls] == [ControllerUnreachable] * 3
    with pytest.raises(ControllerUnreachable):
        await cluster.channel.call(beat(4))
    assert len(asyncio.all_tasks()) == 1
    assert len(cluster.timers) == 0


async def test_a_failed_authentication_fails_the_request_at_once_and_the_next_call_retries(cluster: Cluster) -> None:
    def refuse(request: Request) -> Message:
        if request.header.api_key == ApiKey.SASL_HANDSHAKE:
            return SaslHandshakeResponse(0, ["PLAIN"])
        return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed")

    def connect(node: Node) -> SecuredNodeClient:
        client_security = ClientSecurity(None, ClientSasl("PLAIN", lambda _: tokens_of("PLAIN", "node", "wrong", bytes)))
        common = {"network": cluster.network, "clock": cluster.clock, "timers": cluster.timers, "random": Random(1), "client_id": "x"}
        return SecuredNodeClient(node, client_security=client_security, **common)

    await cluster.answering(FIRST, refuse, {ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2)})
    cluster.connect = connect  # type: ignore[method-assign, assignment] # to a locked listener
    cluster.channel = cluster.new_channel(60_000)
    failure = await cluster.outcome(cluster.ask(beat(1)))
    assert isinstance(failure, ControllerAuthenticationFailed)
    client = Peer("10.0.0.9", "10.0.0.1", 9092, Listener("PLAINTEXT", "10.0.0.1", 9092))
    forwarded = asyncio.ensure_future(EnvelopeForwarding(cluster.channel).forward(beat(1), 2, None, client))
    await settle()
    await cluster.pass_ms(limits.CONTROLLER_DISCOVERY_MS)
    failure = await cluster.outcome(forwarded)
    assert isinstance(failure, Rejected)
    assert failure.code is ErrorCode.UNKNOWN_SERVER_ERROR

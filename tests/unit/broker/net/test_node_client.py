from __future__ import annotations

import asyncio
from random import Random

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.net.network import Sockets
from ottla.broker.net.node_client import ConnectTimeouts, NodeClient
from ottla.broker.runtime.nodes.link import LinkBroken, Node, UnsupportedByPeer
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver
from ottla.broker.testing.in_process import InProcessBroker
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request, encode_response
from ottla.protocol.errors import EncodeError
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k56_alter_partition import AlterPartitionRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tests.support.answering_node import HANG_UP, Answer, ScriptedNode
from tests.support.node_links import LinkHarness
from tests.support.simulation import TimelessLoop, settle

PEER = Node(7, "peer", 9093)
SERVED = {ApiKey.BROKER_HEARTBEAT: (0, 2), ApiKey.DESCRIBE_CLUSTER: (0, 1)}


def beat(number: int) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(broker_id=number)


def same(request: Request) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(throttle_time_ms=request.body.broker_id)


class Harness(LinkHarness):
    def __init__(self) -> None:
        super().__init__()
        self.link = self.connect(PEER)

    async def peer(self, answer: Answer = same) -> ScriptedNode:
        return await self.answering(PEER, answer, SERVED)


@pytest.fixture
async def harness() -> Harness:
    return Harness()


async def test_a_call_connects_and_uses_the_highest_common_version(harness: Harness) -> None:
    peer = await harness.peer()
    assert (await harness.link.call(beat(5), timeout_ms=1000)).throttle_time_ms == 5
    assert peer.requests[0].header.api_version == 2
    assert peer.requests[0].header.client_id == "broker-1"
    assert harness.link.versions(ApiKey.BROKER_HEARTBEAT) == (0, 2)
    assert harness.link.versions(ApiKey.ALTER_PARTITION) is None


async def test_a_caller_can_lower_the_version(harness: Harness) -> None:
    peer = await harness.peer()
    await harness.link.call(beat(5), timeout_ms=1000, version=1)
    await harness.link.call(beat(5), timeout_ms=1000, version=9)
    assert [request.header.api_version for request in peer.requests] == [1, 2]


async def test_an_unsupported_api_or_version_fails_only_its_own_call(harness: Harness) -> None:
    await harness.peer()
    with pytest.raises(UnsupportedByPeer):
        await harness.link.call(AlterPartitionRequest(), timeout_ms=1000)
    with pytest.raises(UnsupportedByPeer):
        await harness.link.call(beat(1), timeout_ms=1000, version=-1)
    assert (await harness.link.call(beat(2), timeout_ms=1000)).throttle_time_ms == 2


async def test_a_message_that_cannot_be_encoded_fails_only_its_own_call(harness: Harness) -> None:
    await harness.peer()
    with pytest.raises(EncodeError):
        await harness.link.call(BrokerHeartbeatRequest(broker_id=1 << 40), timeout_ms=1000)
    assert (await harness.link.call(beat(2), timeout_ms=1000)).throttle_time_ms == 2


@pytest.mark.parametrize("highest", [0, 2, 3])
async def test_api_versions_falls_back_to_the_peers_version(harness: Harness, highest: int) -> None:
    peer = await harness.peer()
    peer.versions[ApiKey.API_VERSIONS] = (0, highest)
    assert (await harness.link.call(beat(3), timeout_ms=1000)).throttle_time_ms == 3


async def test_several_calls_are_pipelined_on_one_connection(harness: Harness) -> None:
    peer = await harness.peer()
    calls = [asyncio.ensure_future(harness.link.call(beat(number), timeout_ms=1000)) for number in range(20)]
    assert [(await call).throttle_time_ms for call in calls] == list(range(20))
    assert [request.body.broker_id for request in peer.requests] == list(range(20))
    assert len(peer.connections) == 1


async def test_a_response_to_another_request_breaks_the_connection(harness: Harness) -> None:
    peer = await harness.peer(lambda request: None)
    calls = [asyncio.ensure_future(harness.link.call(beat(number), timeout_ms=1000)) for number in (1, 2)]
    await settle()
    peer.connections[0].transport.writelines(encode_response(ApiKey.BROKER_HEARTBEAT, 2, 12345, BrokerHeartbeatResponse()))
    assert [type(await harness.outcome(call)) for call in calls] == [LinkBroken, LinkBroken]


@pytest.mark.parametrize("sent", [b"\x7f\xff\xff\xff", b"\0\0\0\4\0\0\0\2", b"\0\0\0\x0c\0\0\0\2" + bytes(7) + b"\xff"])
async def test_invalid_bytes_break_the_connection(harness: Harness, sent: bytes) -> None:
    peer = await harness.peer(lambda request: None)
    call = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=1000))
    await settle()
    peer.connections[0].transport.write(sent)
    assert isinstance(await harness.outcome(call), LinkBroken)


@pytest.mark.parametrize("excess", [0, 1])
async def test_a_response_with_too_many_elements_breaks_the_connection(harness: Harness, excess: int) -> None:
    count = limits.NODE_RESPONSE_ELEMENTS - 2 + excess
    topic = MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(replica_nodes=[1] * count)])
    await harness.answering(PEER, lambda request: MetadataResponse(topics=[topic]), {ApiKey.METADATA: (12, 12)})
    call = asyncio.ensure_future(harness.link.call(MetadataRequest(), timeout_ms=1000))
    if excess:
        with pytest.raises(LinkBroken, match=f"more than {limits.NODE_RESPONSE_ELEMENTS} elements"):
            await call
    else:
        assert len((await call).topics[0].partitions[0].replica_nodes) == count


async def test_an_unexpected_response_breaks_the_connection_and_the_next_call_reconnects(harness: Harness) -> None:
    peer = await harness.peer()
    await harness.link.call(beat(1), timeout_ms=1000)
    peer.connections[0].transport.writelines(encode_response(ApiKey.BROKER_HEARTBEAT, 2, 9, BrokerHeartbeatResponse()))
    await settle()
    call = asyncio.ensure_future(harness.link.call(beat(2), timeout_ms=1000))
    await settle()
    await harness.pass_ms(2 * limits.LINK_BACKOFF_MS)
    assert (await call).throttle_time_ms == 2
    assert len(peer.connections) == 2


async def test_a_timeout_breaks_the_connection_for_all_calls(harness: Harness) -> None:
    await harness.peer(lambda request: None)
    short = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=1000))
    long = asyncio.ensure_future(harness.link.call(beat(2), timeout_ms=5000))
    await settle()
    await harness.pass_ms(999)
    assert await harness.outcome(short) is None
    await harness.pass_ms(1)
    assert isinstance(await harness.outcome(short), LinkBroken)
    assert isinstance(await harness.outcome(long), LinkBroken)


def test_a_response_that_arrived_while_the_loop_was_busy_is_in_time() -> None:
    async def body() -> None:
        harness = Harness()
        peer = await harness.peer(lambda request: held)
        held: asyncio.Future[BrokerHeartbeatResponse] = asyncio.get_running_loop().create_future()
        call = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=1000))
        await settle()
        assert len(peer.requests) == 1
        stall(harness, 1_500)
        await settle()
        assert not call.done()
        held.set_result(BrokerHeartbeatResponse(throttle_time_ms=1))
        await settle()
        assert call.result().throttle_time_ms == 1

    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        runner.run(body())


def test_a_silent_peer_times_out_although_the_loop_is_busy() -> None:
    async def body() -> None:
        harness = Harness()
        await harness.peer(lambda request: None)
        call = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=1000))
        await settle()
        stall(harness, 60_000)
        await settle()
        stall(harness, 1_000)
        assert isinstance(await harness.outcome(call), LinkBroken)

    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        runner.run(body())


def stall(harness: Harness, ms: int) -> None:
    """Block the event loop for `ms` of virtual time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TimelessLoop)
    loop.stalled_ms += ms
    harness.clock.advance(ms)


async def test_pending_calls_fail_when_the_peer_closes_the_connection(harness: Harness) -> None:
    await harness.peer(lambda request: HANG_UP if request.body.broker_id == 2 else None)
    calls = [asyncio.ensure_future(harness.link.call(beat(number), timeout_ms=1000)) for number in (1, 2, 3)]
    assert [type(await harness.outcome(call)) for call in calls] == [LinkBroken] * 3


async def test_a_peer_that_does_not_answer_api_versions_is_given_up_and_dialled_again(harness: Harness) -> None:
    silent = harness.network.listen(PEER.host, PEER.port)
    await silent.accept(asyncio.Protocol, 10)
    call = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=60_000))
    await settle()
    await harness.pass_ms(ConnectTimeouts().setup_ms - 1)
    assert await harness.outcome(call) is None
    await harness.pass_ms(1)
    assert isinstance(await harness.outcome(call), LinkBroken)
    silent.close()
    await harness.peer()
    again = asyncio.ensure_future(harness.link.call(beat(2), timeout_ms=1000))
    await settle()
    await harness.pass_ms(2 * limits.LINK_BACKOFF_MS)
    assert (await again).throttle_time_ms == 2


async def test_the_setup_timeout_doubles_with_each_failure_up_to_a_limit(harness: Harness) -> None:
    silent = harness.network.listen(PEER.host, PEER.port)
    await silent.accept(asyncio.Protocol, 10)
    timeouts = ConnectTimeouts(setup_ms=1_000, setup_max_ms=3_000)
    link = NodeClient(PEER, harness.network, clock=harness.clock, timers=harness.timers, random=Random(1), client_id="x", timeouts=timeouts)
    took = []
    for _ in range(4):
        await harness.pass_ms(1_200)  # the pause before the attempt is over
        began_ms = harness.clock.mono_ms()
        call = asyncio.ensure_future(link.call(beat(1), timeout_ms=60_000))
        while await harness.outcome(call) is None:
            await harness.pass_ms(10)
        took.append(harness.clock.mono_ms() - began_ms)
    assert took[0] == 1_000
    assert [1_600 <= took[1] <= 2_410, took[2], took[3]] == [True, pytest.approx(2_800, abs=410), pytest.approx(2_800, abs=410)]


async def test_a_refusing_node_is_dialled_after_pauses_that_grow_up_to_a_second(harness: Harness) -> None:
    pauses = []
    for _ in range(8):
        began_ms = harness.clock.mono_ms()
        call = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=60_000))
        while await harness.outcome(call) is None:
            await harness.pass_ms(5)
        assert isinstance(call.exception(), LinkBroken)
        pauses.append(harness.clock.mono_ms() - began_ms)
    assert pauses[0] == 0
    for pause_ms, middle in zip(pauses[1:], [50, 100, 200, 400, 800, 1000, 1000], strict=True):
        assert 0.8 * middle <= pause_ms < 1.2 * middle + 5


async def test_a_successful_connection_resets_the_backoff(harness: Harness) -> None:
    for _ in range(4):
        call = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=60_000))
        while await harness.outcome(call) is None:
            await harness.pass_ms(10)
        assert isinstance(call.exception(), LinkBroken)
    peer = await harness.peer()
    call = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=60_000))
    await settle()
    await harness.pass_ms(1000)
    await call
    peer.hang_up()
    await settle()
    again = asyncio.ensure_future(harness.link.call(beat(2), timeout_ms=60_000))
    await settle()
    await harness.pass_ms(round(1.2 * limits.LINK_BACKOFF_MS))
    answer = await harness.outcome(again)
    again.cancel()
    assert answer == BrokerHeartbeatResponse(throttle_time_ms=2)


async def test_a_cancelled_call_does_not_disturb_others(harness: Harness) -> None:
    held: asyncio.Future[BrokerHeartbeatResponse] = asyncio.get_running_loop().create_future()
    await harness.peer(lambda request: held if request.body.broker_id == 1 else same(request))
    first = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=1000))
    await settle()
    first.cancel()
    held.set_result(BrokerHeartbeatResponse())
    assert (await harness.link.call(beat(2), timeout_ms=1000)).throttle_time_ms == 2


async def test_close_fails_pending_and_later_calls(harness: Harness) -> None:
    peer = await harness.peer(lambda request: None)
    call = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=1000))
    await settle()
    harness.link.close()
    assert isinstance(await harness.outcome(call), LinkBroken)
    with pytest.raises(LinkBroken):
        await harness.link.call(beat(2), timeout_ms=1000)
    assert peer.connections[0].transport.is_closing()
    assert len(harness.timers) == 0


async def test_close_while_connecting_leaves_no_task_behind(harness: Harness) -> None:
    silent = harness.network.listen(PEER.host, PEER.port)
    await silent.accept(asyncio.Protocol, 10)
    call = asyncio.ensure_future(harness.link.call(beat(1), timeout_ms=60_000))
    await settle()
    harness.link.close()
    assert isinstance(await harness.outcome(call), LinkBroken)
    assert len(asyncio.all_tasks()) == 1
    assert len(harness.timers) == 0


async def test_a_broker_on_a_socket_answers_like_one_in_memory() -> None:
    clock, timers = Clock(), Timers()
    driver = TimerDriver(timers, clock)
    driver.start()
    with InProcessBroker() as broker:
        node = Node(-1, "127.0.0.1", broker.port)
        link = NodeClient(node, Sockets(), clock=clock, timers=timers, random=Random(1), client_id="test")
        described: DescribeClusterResponse = await link.call(DescribeClusterRequest(), timeout_ms=10_000)
        assert [broker.port for broker in described.brokers] == [node.port]
        assert link.versions(ApiKey.API_VERSIONS) == (0, 5)
        assert (await link.call(ApiVersionsRequest("a", "1"), timeout_ms=10_000, version=3)).error_code == 0
        assert (await link.call(MetadataRequest(topics=[]), timeout_ms=10_000)).brokers[0].port == node.port
    with pytest.raises(LinkBroken):
        await link.call(DescribeClusterRequest(), timeout_ms=10_000)
    link.close()
    driver.stop()

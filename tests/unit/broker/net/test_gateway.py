"""A gateway between real sockets, in front of one broker, a cluster, or a scripted cluster that misbehaves."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.gateway.address_book import Address
from ottla.broker.gateway.session import GatewaySession
from ottla.broker.net.gateway import IDLE_DEFAULT_MS, Gateway, GatewaySettings
from ottla.broker.net.gateway_connection import GatewayConnection
from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response, encode_request, encode_response
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from tests.support.group_calls import wait_until_async
from tests.support.running_broker import HOST, RunningBroker
from tests.support.topic_calls import create, produce

TIMEOUT_S = 20
ANY_REQUEST = struct.pack(">ihhih", 10, 999, 0, 1, -1)
METADATA = b"".join(encode_request(3, 9, 1, None, MetadataRequest([])))


def client_of(gateway: InProcessGateway, node_id: int | None = None) -> Client:
    port = gateway.node.ports[0] if node_id is None else gateway.node.book.ports[node_id]
    return Client(HOST, port)


@contextmanager
def scripted(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Run a cluster of one node on a thread, which calls `serve` with each connection; yield its port."""
    with closing(socket.create_server((HOST, 0))) as listening:

        def accept() -> None:
            while True:
                try:
                    connected, _ = listening.accept()
                except OSError:
                    return
                connected.settimeout(TIMEOUT_S)
                threading.Thread(target=run, args=(connected,), daemon=True).start()

        def run(connected: socket.socket) -> None:
            with connected:
                try:
                    serve(connected)
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(TIMEOUT_S)


def answering_with(*answers: bytes) -> Callable[[socket.socket], None]:
    """Return a function that sends one of `answers` after each read, and then nothing until the peer closes the connection."""

    def serve(connected: socket.socket) -> None:
        for answer in answers:
            connected.recv(65_536)
            connected.sendall(answer)
        while connected.recv(65_536):
            pass

    return serve


def read_to_the_end(client: Client, data: bytes) -> None:
    """Send the data, and read until the peer closes the connection, which raises ConnectionError."""
    client.send_raw(data)
    while True:
        client.read_frame()


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable the garbage collector, after a full run."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def has_freed_connections(_: Gateway) -> bool:
    return not any(isinstance(each, GatewayConnection | GatewaySession) for each in gc.get_objects())


def waits(event: threading.Event) -> None:
    event.wait(TIMEOUT_S)


def test_a_client_reaches_the_broker_through_the_gateway_and_is_given_its_port(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, InProcessGateway(broker.bootstrap) as gateway, client_of(gateway) as client:
        create(client, "t")
        (named,) = client.call(MetadataRequest([])).brokers
        assert (named.host, named.port) == (HOST, gateway.node.book.ports[named.node_id])
        assert named.port != broker.port
        with client_of(gateway, named.node_id) as direct:
            assert [produce(direct, "t", value) for value in (b"a", b"b")] == [0, 1]


def test_gateway_responses_equal_the_brokers_except_for_addresses(tmp_path: Path) -> None:
    with (
        RunningBroker(tmp_path / "data") as broker,
        InProcessGateway(broker.bootstrap) as gateway,
        client_of(gateway) as client,
        broker.client() as beside,
    ):
        create(client, "t")
        request = ApiVersionsRequest("x", "1")
        assert client.call(request, 4) == beside.call(request, 4)
        through, own = client.call(MetadataRequest(None), 12), beside.call(MetadataRequest(None), 12)
        assert (through.topics, through.cluster_id) == (own.topics, own.cluster_id)


def test_a_large_response_arrives_whole_at_a_slow_reader_and_the_gateway_does_not_store_it(tmp_path: Path) -> None:
    value, count = b"v" * 900_000, 24
    with RunningBroker(tmp_path / "data") as broker, InProcessGateway(broker.bootstrap) as gateway, client_of(gateway) as client:
        create(client, "t")
        for _ in range(count):
            produce(client, "t", value)
        partition = FetchPartition(partition_max_bytes=100_000_000)
        sent = client.send(FetchRequest(max_bytes=100_000_000, topics=[FetchTopic("t", partitions=[partition])]), 12)
        (connection,) = gateway.node.connections.open
        gateway.call_until(lambda _: connection.held_bytes() > limits.GATEWAY_WRITE_HIGH_BYTES)
        held = gateway.call(lambda _: connection.held_bytes())
        frame = client.read_frame()
        assert struct.unpack_from(">i", frame)[0] == sent
        assert len(frame) > count * len(value)
        assert held <= limits.GATEWAY_WRITE_HIGH_BYTES + limits.READ_CHUNK_BYTES
        client.call(MetadataRequest([]))  # a transport that was not full does not tell when it has sent its last bytes
        gateway.call_until(lambda node: node.connections.budget.used == 0)


def test_connections_above_the_limit_are_closed_until_another_one_ends(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker:
        settings = GatewaySettings([Address(HOST, broker.port)], port=0, max_connections=1)
        with InProcessGateway(settings=settings) as gateway:
            with client_of(gateway) as client:
                client.call(MetadataRequest([]))
                with client_of(gateway) as refused, pytest.raises(ConnectionError):
                    refused.call(MetadataRequest([]))
                assert client.call(MetadataRequest([])).brokers
            gateway.call_until(lambda node: not node.connections.open)
            with client_of(gateway) as client:
                assert client.call(MetadataRequest([])).brokers


def test_a_client_that_leaves_ends_the_connection_to_the_broker(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, InProcessGateway(broker.bootstrap) as gateway:
        with client_of(gateway) as client:
            client.call(MetadataRequest([]))
            assert broker.call(lambda node: node.connection_count) == 1
        broker.call_until(lambda node: node.connection_count == 0)
        gateway.call_until(lambda node: not node.connections.open)


def test_a_broker_that_stops_ends_its_clients_connections_and_is_reached_again_after_its_return(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, InProcessGateway(broker.bootstrap) as gateway:
        with client_of(gateway) as client:
            client.call(MetadataRequest([]))
            broker.restart()
            with pytest.raises(ConnectionError):
                client.call(MetadataRequest([]))
        with client_of(gateway) as again:
            assert again.call(MetadataRequest([])).brokers


def test_a_cluster_that_cannot_be_reached_ends_the_connection_and_names_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    with closing(socket.create_server((HOST, 0))) as taken:
        port = taken.getsockname()[1]
    with InProcessGateway(f"{HOST}:{port}") as gateway, pytest.raises(ConnectionError), client_of(gateway) as client:
        client.call(MetadataRequest([]))
    assert f"the cluster cannot be reached: {HOST}:{port}: " in caplog.text


def test_unreachable_cluster_resets_a_client_connection_without_sending_bytes() -> None:
    with closing(socket.create_server((HOST, 0))) as taken:
        port = taken.getsockname()[1]
    with (
        InProcessGateway(f"{HOST}:{port}") as gateway,
        pytest.raises(ConnectionResetError),
        closing(socket.create_connection((HOST, gateway.node.ports[0]), TIMEOUT_S)) as client,
    ):
        client.recv(1)


def test_a_broker_that_moves_is_followed_and_keeps_its_port() -> None:
    def named(port: int) -> bytes:
        return b"".join(encode_response(3, 9, 1, MetadataResponse(brokers=[MetadataResponseBroker(5, HOST, port)])))

    def saying(word: bytes) -> bytes:
        return struct.pack(">ii", 7, 1) + word

    with scripted(answering_with(saying(b"old"))) as old, scripted(answering_with(saying(b"new"))) as new:
        answers = iter([named(old), named(new)])

        def serve(connected: socket.socket) -> None:
            answering_with(next(answers))(connected)

        with scripted(serve) as seed, InProcessGateway(f"{HOST}:{seed}") as gateway:
            ports, heard = [], []
            for _ in range(2):
                with client_of(gateway) as client:
                    ports.append(client.call(MetadataRequest([]), 9).brokers[0].port)
                with Client(HOST, ports[-1]) as direct:
                    direct.send_raw(ANY_REQUEST)
                    heard.append(bytes(direct.read_frame())[4:])
    assert ports[0] == ports[1]
    assert heard == [b"old", b"new"]


def test_the_first_cluster_address_that_answers_is_used(tmp_path: Path) -> None:
    with closing(socket.create_server((HOST, 0))) as taken:
        dead = taken.getsockname()[1]
    with (
        RunningBroker(tmp_path / "data") as broker,
        InProcessGateway(f"{HOST}:{dead},{broker.bootstrap}") as gateway,
        client_of(gateway) as client,
    ):
        assert client.call(MetadataRequest([])).brokers


HOSTILE_RESPONSES = {
    "a negative length": struct.pack(">i", -5),
    "a response of two gigabytes that has to be decoded": struct.pack(">ii", 2**31 - 1, 1),
    "another correlation id": struct.pack(">ii", 4, 99),
    "a body that is not Metadata": struct.pack(">ii", 24, 1) + b"\xff" * 20,
    "two responses": b"".join(encode_response(3, 9, 1, MetadataResponse())) * 2,
}


@pytest.mark.parametrize("lie", HOSTILE_RESPONSES.values(), ids=HOSTILE_RESPONSES)
def test_malformed_cluster_response_closes_only_its_own_connection(tmp_path: Path, lie: bytes) -> None:
    with scripted(answering_with(lie)) as port, InProcessGateway(f"{HOST}:{port}") as gateway, client_of(gateway) as other:
        with client_of(gateway) as client, pytest.raises(ConnectionError):
            read_to_the_end(client, METADATA)
        assert other.fileno() > 0
        gateway.call_until(lambda node: len(node.connections.open) == 1)


def test_cluster_with_too_many_brokers_at_once_gets_no_port() -> None:
    many = MetadataResponse(brokers=[MetadataResponseBroker(number, HOST, 9_092) for number in range(limits.GATEWAY_NODES_MAX + 1)])
    answer = b"".join(encode_response(3, 9, 1, many))
    with scripted(answering_with(answer)) as port, InProcessGateway(f"{HOST}:{port}") as gateway:
        with client_of(gateway) as client, pytest.raises(ConnectionError):
            client.call(MetadataRequest([]), 9)
        assert gateway.call(lambda node: node.book.ports) == {}


def test_client_of_a_broker_with_an_invalid_host_name_is_closed() -> None:
    named = MetadataResponse(brokers=[MetadataResponseBroker(1, "h" * 100, 9_092)])
    with scripted(answering_with(b"".join(encode_response(3, 9, 1, named)))) as port, InProcessGateway(f"{HOST}:{port}") as gateway:
        with client_of(gateway) as client:
            client.call(MetadataRequest([]), 9)
        with pytest.raises(ConnectionError), client_of(gateway, 1) as client:
            read_to_the_end(client, METADATA)


FIND = b"".join(encode_request(10, 4, 1, None, FindCoordinatorRequest("", 0, ["g"])))
FOUND = FindCoordinatorResponse(coordinators=[Coordinator(f"group-{number}", 5, HOST, 9_092) for number in range(10_000)])
FOUND_BYTES = b"".join(encode_response(10, 4, 1, FOUND))


def test_a_find_coordinator_response_with_10000_groups_names_the_gateway() -> None:
    with scripted(answering_with(FOUND_BYTES)) as port, InProcessGateway(f"{HOST}:{port}") as gateway, client_of(gateway) as client:
        client.send_raw(FIND)
        got = decode_response(10, 4, client.read_frame())[1]
        assert {(each.host, each.port) for each in got.coordinators} == {(HOST, gateway.node.book.ports[5])}
        assert [each.key for each in got.coordinators] == [each.key for each in FOUND.coordinators]


def test_a_find_coordinator_response_with_10000_groups_and_more_ends_the_connection_which_is_freed_without_the_garbage_collector() -> None:
    answer = struct.pack(">i", len(FOUND_BYTES)) + FOUND_BYTES[4:] + b"more"
    with scripted(answering_with(answer)) as port, InProcessGateway(f"{HOST}:{port}") as gateway, without_collector():
        with client_of(gateway) as client, pytest.raises(ConnectionError):
            read_to_the_end(client, FIND)
        gateway.call_until(has_freed_connections)


class Jobs(ThreadPoolExecutor):
    """An executor whose jobs wait for `run`."""

    def __init__(self) -> None:
        super().__init__(1)
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self.waiting.append((future, partial(fn, *args, **kwargs)))
        return future

    async def run(self) -> None:
        """Wait for a job, and run it."""
        await wait_until_async(lambda: bool(self.waiting), "a job")
        future, job = self.waiting.pop(0)
        future.set_result(job())


async def test_large_find_coordinator_responses_are_decoded_one_at_a_time_also_when_a_client_leaves() -> None:
    jobs = Jobs()
    asyncio.get_running_loop().set_default_executor(jobs)
    with scripted(answering_with(FOUND_BYTES)) as port:
        gateway = Gateway(GatewaySettings([Address(HOST, port)], port=0))
        await gateway.start()
        (_, leaving), (reader, staying) = [await asyncio.open_connection(HOST, gateway.ports[0]) for _ in range(2)]
        leaving.write(FIND)
        await wait_until_async(lambda: bool(jobs.waiting), "the first response is decoded")
        staying.write(FIND)
        await wait_until_async(lambda: gateway.connections.budget.used > 1.5 * len(FOUND_BYTES), "the second response is there")
        leaving.close()
        await wait_until_async(lambda: len(gateway.connections.open) == 1, "the first client has left")
        for _ in range(10):
            await asyncio.sleep(0)
            assert len(jobs.waiting) == 1
        for _ in range(
            5
        ):  # the decoding for the client that has left; for the other one: decode, collect brokers, replace addresses, encode
            await jobs.run()
            assert not jobs.waiting
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        assert len(decode_response(10, 4, await reader.readexactly(size))[1].coordinators) == len(FOUND.coordinators)
        staying.close()
        await gateway.stop()


class BusyClock(Clock):
    """A clock by which each step of a computation takes a whole time slice of the event loop."""

    def __init__(self) -> None:
        self._spent_ns = 0

    def spent_ns(self) -> int:
        self._spent_ns += limits.SLICE_MS * 1_000_000
        return self._spent_ns


async def test_other_connections_have_their_turns_while_metadata_of_20000_partitions_is_rewritten() -> None:
    partitions = [MetadataResponsePartition(0, index, 5, 1, [5, 6, 7], [5, 6, 7]) for index in range(20_000)]
    brokers, topics = [MetadataResponseBroker(5, HOST, 9_092)], [MetadataResponseTopic(0, "t", b"i" * 16, partitions=partitions)]
    large = b"".join(encode_response(3, 12, 1, MetadataResponse(brokers=brokers, topics=topics)))
    later = struct.pack(">ii", 9, 1) + b"later"
    loop, turns = asyncio.get_running_loop(), 0
    with scripted(answering_with(large + later)) as port:
        gateway = Gateway(GatewaySettings([Address(HOST, port)], port=0), clock=BusyClock())
        await gateway.start()

        def bystander() -> None:
            nonlocal turns
            is_there = gateway.connections.budget.used >= len(large) - 4
            turns += is_there and gateway.book.topic_name(b"i" * 16) is None
            loop.call_soon(bystander)

        bystander()
        reader, writer = await asyncio.open_connection(HOST, gateway.ports[0])
        writer.write(b"".join(encode_request(3, 12, 1, None, MetadataRequest(None))) + ANY_REQUEST)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        got = decode_response(3, 12, await reader.readexactly(size))[1]
        assert (await reader.readexactly(len(later)), got.topics) == (later, topics)
        assert gateway.book.topic_name(b"i" * 16) == "t"
        writer.close()
        await gateway.stop()
    assert turns > 50


@pytest.mark.parametrize(
    "lie", [struct.pack(">i", -1), struct.pack(">ihhi", 8, 3, 99, 1), struct.pack(">ih", 2, 0), struct.pack(">ihhi", 8, 0, 9, 1)]
)
def test_malformed_client_request_closes_only_its_own_connection(tmp_path: Path, lie: bytes) -> None:
    with RunningBroker(tmp_path / "data") as broker, InProcessGateway(broker.bootstrap) as gateway, client_of(gateway) as other:
        with client_of(gateway) as liar, pytest.raises(ConnectionError):
            read_to_the_end(liar, lie)
        assert other.call(MetadataRequest([])).brokers


@pytest.mark.parametrize("sent", [ANY_REQUEST, struct.pack(">i", -1), struct.pack(">ihh", 100, 0, 9), b""])
def test_closed_connections_are_freed_without_the_garbage_collector(tmp_path: Path, sent: bytes) -> None:
    with RunningBroker(tmp_path / "data") as broker, InProcessGateway(broker.bootstrap) as gateway, without_collector():
        for _ in range(20):
            with socket.create_connection((HOST, gateway.node.ports[0])) as client:
                client.sendall(sent)
        gateway.call_until(lambda node: node.connections.made >= 20 and has_freed_connections(node))


def test_silent_cluster_pauses_reading_from_its_client_only(tmp_path: Path) -> None:
    never = threading.Event()
    with (
        scripted(lambda _: waits(never)) as port,
        InProcessGateway(f"{HOST}:{port}") as gateway,
        socket.create_connection((HOST, gateway.node.ports[0])) as client,
    ):
        gateway.call_until(lambda node: bool(node.connections.open))
        (connection,) = gateway.node.connections.open
        client.sendall(struct.pack(">ihhih", 2**30, 999, 0, 1, -1))
        client.setblocking(False)
        while gateway.call(lambda _: connection.held_bytes()) <= limits.GATEWAY_WRITE_HIGH_BYTES:
            with suppress(BlockingIOError):
                client.send(bytes(1_000_000))
        assert gateway.call(lambda _: connection.held_bytes()) <= limits.GATEWAY_WRITE_HIGH_BYTES + limits.READ_CHUNK_BYTES
        never.set()


def test_client_that_does_not_read_the_last_bytes_of_a_closed_cluster_is_closed() -> None:
    more, sent, has_gone = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def send_while_asked(connected: socket.socket) -> None:
        connected.recv(65_536)
        connected.sendall(struct.pack(">ii", 2**30, 1))
        while more.acquire(timeout=TIMEOUT_S) and not has_gone.is_set():
            connected.sendall(bytes(10_000))
            sent.release()

    with (
        scripted(send_while_asked) as port,
        InProcessGateway(f"{HOST}:{port}") as gateway,
        socket.create_connection((HOST, gateway.node.ports[0])) as client,
    ):
        client.sendall(ANY_REQUEST)
        gateway.call_until(lambda node: bool(node.connections.open))
        (connection,) = gateway.node.connections.open
        # One piece at a time: with more unsent bytes than a full transport's, the gateway would not read the broker's end of stream.
        while not gateway.call(lambda _: connection.client.unsent()):
            more.release()
            assert sent.acquire(timeout=TIMEOUT_S)
        has_gone.set()
        more.release()
        gateway.call_until(lambda _: connection.client.is_closing)
        gateway.clock.advance(limits.GATEWAY_STILL_MS / 1000)
        gateway.call_until(lambda node: not node.connections.open)


@pytest.mark.parametrize("sent", [b"", ANY_REQUEST, METADATA, METADATA[:9]])
def test_idle_connection_is_closed(sent: bytes) -> None:
    never = threading.Event()
    with (
        scripted(lambda _: waits(never)) as port,
        InProcessGateway(f"{HOST}:{port}") as gateway,
        socket.create_connection((HOST, gateway.port), TIMEOUT_S) as client,
    ):
        client.sendall(sent)
        gateway.call_until(lambda node: bool(node.connections.open))
        gateway.clock.advance(IDLE_DEFAULT_MS / 1000 - 1)
        assert gateway.call(lambda node: len(node.connections.open)) == 1
        gateway.clock.advance(IDLE_DEFAULT_MS / 10_000 + 1)
        gateway.call_until(lambda node: not node.connections.open)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
        never.set()


def test_connection_with_traffic_in_one_direction_is_not_idle() -> None:
    with (
        scripted(answering_with(struct.pack(">iii", 1_000, 1, 0), b"1", b"2", b"3")) as port,
        InProcessGateway(f"{HOST}:{port}") as gateway,
        socket.create_connection((HOST, gateway.port), TIMEOUT_S) as client,
    ):
        for answer in (12, 1, 1, 1):
            client.sendall(ANY_REQUEST)
            assert len(client.recv(100)) == answer
            gateway.clock.advance(IDLE_DEFAULT_MS / 2_000)
        assert gateway.call(lambda node: len(node.connections.open)) == 1


@pytest.mark.parametrize("action", ["delay", "delay-request"])
def test_a_request_that_a_rule_delays_is_not_idle(tmp_path: Path, action: str) -> None:
    rule = f"{action}:api=Metadata,ms={2 * IDLE_DEFAULT_MS},times=1"
    with (
        RunningBroker(tmp_path / "data") as broker,
        InProcessGateway(broker.bootstrap, faults=rule) as gateway,
        client_of(gateway) as client,
    ):
        assert client.call(ApiVersionsRequest("test", "1")).api_keys  # the broker is connected
        client.send_raw(METADATA)
        gateway.call_until(lambda node: not node.faults.unconsumed() and len(node.timers) == 2)
        gateway.clock.advance(IDLE_DEFAULT_MS * 3 / 2_000)
        assert gateway.call(lambda node: len(node.connections.open)) == 1
        gateway.clock.advance(IDLE_DEFAULT_MS / 1_000)
        assert client.read_frame()


def test_a_brokers_port_follows_from_its_node_id_or_is_another_if_that_is_taken(tmp_path: Path) -> None:
    with closing(socket.create_server((HOST, 0))) as probe:
        port = probe.getsockname()[1]
    port = port if port < 60_000 else port - 10_000
    with RunningBroker(tmp_path / "data", {"node.id": "3"}) as broker:
        with InProcessGateway(broker.bootstrap, port=port) as gateway, client_of(gateway) as client:
            assert [(each.node_id, each.port) for each in client.call(MetadataRequest([])).brokers] == [(3, port + 4)]
        with (
            closing(socket.create_server((HOST, port + 4))),
            InProcessGateway(broker.bootstrap, port=port) as gateway,
            client_of(gateway) as client,
        ):
            (moved,) = client.call(MetadataRequest([])).brokers
            assert moved.port not in {port, port + 4}


def test_clients_get_the_advertised_host(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker:
        settings = GatewaySettings([Address(HOST, broker.port)], port=0, advertised_host="localhost")
        with InProcessGateway(settings=settings) as gateway, client_of(gateway) as client:
            assert client.call(MetadataRequest([])).brokers[0].host == "localhost"


def test_a_port_that_is_in_use_stops_the_start() -> None:
    with closing(socket.create_server((HOST, 0))) as taken, pytest.raises(OSError, match="cannot listen on 127"):
        InProcessGateway(f"{HOST}:1", port=taken.getsockname()[1]).start()

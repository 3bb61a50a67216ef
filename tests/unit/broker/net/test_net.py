from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.api.context import Listener, Peer
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.reply import Reply
from ottla.broker.app import Broker
from ottla.broker.core import limits
from ottla.broker.core.clock import MovableClock, VirtualClock
from ottla.broker.faults.engine import Faults
from ottla.broker.net.connection import SharedConnectionState
from ottla.broker.net.session import ByteBudget
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.loopback import needs_ipv6
from tests.support.running_broker import HOST, RunningBroker
from tests.support.topic_calls import create, produce


def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as running, running.client() as client:
        create(client, "t")
        wait = FetchRequest(max_wait_ms=50, min_bytes=1, topics=[FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=1000)])])
        sent = [client.send(wait, 12), client.send(MetadataRequest([]), 9), client.send(MetadataRequest(None), 9)]
        assert [struct.unpack_from(">i", client.read_frame())[0] for _ in sent] == sent


def test_a_long_pipeline_is_answered_completely(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as running, running.client() as client:
        client.send_raw(b"".join(b"".join(encode_request(3, 9, number, "test", MetadataRequest([]))) for number in range(1_000)))
        assert [struct.unpack_from(">i", client.read_frame())[0] for _ in range(1_000)] == list(range(1_000))
        assert client.call(MetadataRequest([]), 9).brokers


def test_a_pipeline_without_responses_is_handled_completely_although_its_sender_closes(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as running, running.client() as client:
        create(client, "t")
        batch = PartitionProduceData(0, build_batch([SimpleRecord(None, b"x", 1)]))
        one = b"".join(encode_request(0, 9, 1, "test", ProduceRequest(acks=0, topic_data=[TopicProduceData("t", partition_data=[batch])])))
        with running.client() as hasty:
            hasty.send_raw(one * 1_000)
        running.call_until(lambda broker: broker.services.partitions.get("t", 0).log.log_end_offset == 1_000)


@needs_ipv6
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_client_of_a_dual_stack_listener_gets_an_address_of_its_own_family(tmp_path: Path, host: str) -> None:
    with RunningBroker(tmp_path / "data", {"listeners": "PLAINTEXT://[::]:0"}) as running, Client(host, running.port) as client:
        (broker,) = client.call(MetadataRequest([])).brokers
        assert (broker.host, broker.port) == (host, running.port)


def test_a_host_name_of_both_families_is_bound_at_ipv4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def both(host: bytes, port: int, **_: int) -> list[tuple[object, ...]]:
        assert host == b"localhost"
        kind = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(socket.AF_INET6, *kind, ("::1", port, 0, 0)), (socket.AF_INET, *kind, ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with RunningBroker(tmp_path / "data", {"listeners": "PLAINTEXT://localhost:0"}) as running:
        monkeypatch.undo()
        with Client(HOST, running.port) as client:
            assert client.call(MetadataRequest([])).brokers


def test_invalid_bytes_close_only_their_own_connection(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as running, running.client() as good:
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00\x00\x00\x08\x03\xe8\x00\x00\x00\x00\x00\x01"):
            with socket.create_connection((HOST, running.port)) as bad:
                bad.settimeout(10)
                bad.sendall(garbage)
                assert bad.recv(1) == b""
        assert good.call(MetadataRequest([])).brokers


def test_connections_beyond_the_limit_of_an_address_are_closed(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", {"max.connections.per.ip": "2"}) as running:
        with running.client() as first, running.client() as second:
            assert first.call(MetadataRequest([])).brokers
            assert second.call(MetadataRequest([])).brokers
            with pytest.raises(ConnectionError), Client(HOST, running.port) as third:
                third.call(MetadataRequest([]))
        running.call_until(lambda broker: broker.connection_count == 0)
        with running.client() as again:
            assert again.call(MetadataRequest([])).brokers


@pytest.mark.parametrize(("limit", "override"), [("1", "127.0.0.1:2"), ("9", "::1:9, 127.0.0.1:2")])
def test_an_override_replaces_the_limit_for_its_address(tmp_path: Path, limit: str, override: str) -> None:
    settings = {"max.connections.per.ip": limit, "max.connections.per.ip.overrides": override}
    with RunningBroker(tmp_path / "data", settings) as running, running.client() as first, running.client() as second:
        assert first.call(MetadataRequest([])).brokers
        assert second.call(MetadataRequest([])).brokers
        with pytest.raises(ConnectionError), Client(HOST, running.port) as third:
            third.call(MetadataRequest([]))


def test_a_changed_connection_limit_applies_at_once(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as running, running.client() as first:
        for name in ("max.connections", "max.connections.per.ip"):
            for value, accepted in (("1", False), ("2", True)):
                change = AlterConfigsResource(4, "1", [AlterableConfig(name, 0, value)])
                (changed,) = first.call(IncrementalAlterConfigsRequest([change])).responses
                assert changed.error_code == 0
                if accepted:
                    with running.client() as second:
                        assert second.call(MetadataRequest([])).brokers
                    running.call_until(lambda broker: broker.connection_count == 1)
                else:
                    with pytest.raises(ConnectionError), running.client() as second:
                        second.call(MetadataRequest([]))


def test_connections_leave_descriptors_for_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_elsewhere = SharedConnectionState.count_in_process()
    monkeypatch.setattr("ottla.broker.net.connection.max_connections", lambda: open_elsewhere + 3)
    with RunningBroker(tmp_path / "data") as running, running.client() as first, running.client() as second, running.client() as third:
        assert all(client.call(MetadataRequest([])).brokers for client in (first, second, third))
        with pytest.raises(ConnectionError), running.client() as fourth:
            fourth.call(MetadataRequest([]))


def test_a_listener_can_have_a_lower_limit_than_the_broker(tmp_path: Path) -> None:
    settings = {
        "listeners": "OUTER://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "OUTER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listener.name.outer.max.connections": "1",
    }
    with RunningBroker(tmp_path / "data", settings) as running, running.client() as outer:
        assert outer.call(MetadataRequest([])).brokers
        inner_port = running.call(lambda broker: broker.services.listeners[1].port)
        with Client(HOST, inner_port) as inner:
            for limit, accepted in (("1", False), ("2", True), (None, True), ("1", False)):
                config = AlterableConfig("listener.name.outer.max.connections", 0 if limit else 1, limit)
                change = AlterConfigsResource(4, "1", [config])
                (changed,) = inner.call(IncrementalAlterConfigsRequest([change])).responses
                assert changed.error_code == 0
                if limit is None:
                    continue
                with running.client() as second:
                    if accepted:
                        assert second.call(MetadataRequest([])).brokers
                    else:
                        with pytest.raises(ConnectionError):
                            second.call(MetadataRequest([]))
                running.call_until(lambda broker: broker.connection_count == 2)


def test_a_broker_beyond_the_limit_replaces_the_client_that_was_idle_longest(tmp_path: Path) -> None:
    settings = {
        "listeners": "OUTER://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "OUTER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "max.connections": "2",
    }
    clock = VirtualClock()
    with RunningBroker(tmp_path / "data", settings, clock=clock) as running, running.client() as first, running.client() as second:
        for client in (second, first):
            assert client.call(MetadataRequest([])).brokers
            running.clock.advance(1)
        with pytest.raises(ConnectionError), running.client() as third:
            third.call(MetadataRequest([]))
        with Client(HOST, running.call(lambda broker: broker.services.listeners[1].port)) as inner:
            assert inner.call(MetadataRequest([])).brokers
            with pytest.raises(ConnectionError):
                second.call(MetadataRequest([]))
            assert first.call(MetadataRequest([])).brokers


def test_an_idle_connection_is_closed_unless_a_request_is_pending(tmp_path: Path) -> None:
    with (
        RunningBroker(tmp_path / "data", {"connections.max.idle.ms": "300"}) as running,
        running.client() as idle,
        running.client() as waiting,
    ):
        create(waiting, "t")
        topics = [FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=1000)])]
        waiting.send(FetchRequest(max_wait_ms=1_500, min_bytes=1, topics=topics), 12)
        with pytest.raises(ConnectionError):
            idle.read_frame()
        assert decode_response(1, 12, waiting.read_frame())[1].error_code == 0


def test_a_client_that_does_not_read_responses_holds_little_memory(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as running, running.client() as client, running.client() as lazy:
        create(client, "t")
        for _ in range(4):
            produce(client, "t", b"x" * 900_000)
        topics = [FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=4_000_000)])]
        for _ in range(60):
            lazy.send(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 12)
        assert client.call(MetadataRequest([])).brokers
        held = running.call(lambda broker: broker.buffered_bytes)
        assert 0 < held < 16_000_000, "of 216 million bytes that were asked"
        for _ in range(60):
            assert len(lazy.read_frame()) > 3_600_000
        assert running.call(lambda broker: broker.buffered_bytes) == 0


def test_a_paused_connection_resumes_when_the_request_that_held_the_memory_is_handled(tmp_path: Path) -> None:
    """Meanwhile no connection is closed and no response is read: the memory is released by handling the request."""
    large = b"".join(encode_request(3, 9, 1, "test", MetadataRequest([MetadataRequestTopic(name="x" * 200)] * 700)))
    with (
        RunningBroker(tmp_path / "data", {"queued.max.request.bytes": "100000"}) as running,
        running.client() as holder,
        running.client() as other,
    ):
        assert other.call(MetadataRequest([])).brokers
        holder.send_raw(large[:-1])
        running.call_until(lambda broker: broker.buffered_bytes == len(large) - 1)
        other.send(MetadataRequest([]), 9)
        other.read_frame()
        other.send(MetadataRequest([]), 9)
        holder.send_raw(large[-1:])
        holder.read_frame()
        other.read_frame()


def _until_closed(running: RunningBroker, other: Client, clock: MovableClock, attackers: int) -> None:
    """Wait until the broker has closed the attackers' connections; `other` keeps getting responses meanwhile."""
    for _ in range(10):
        assert other.call(MetadataRequest([]), 9).brokers
        running.call(lambda _: clock.advance(limits.SLOW_CHECK_MS))
        assert other.call(MetadataRequest([]), 9).brokers
    running.call_until(lambda broker: broker.connection_count < 1 + attackers)


def test_peers_that_do_not_read_cannot_hold_the_memory_that_others_need(tmp_path: Path) -> None:
    clock = MovableClock()
    with (
        RunningBroker(tmp_path / "data", {"queued.max.request.bytes": "1000000"}, clock=clock) as running,
        running.client() as lazy,
        running.client() as other,
    ):
        create(other, "t")
        for _ in range(4):
            produce(other, "t", b"x" * 900_000)
        topics = [FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=4_000_000)])]
        for _ in range(60):
            lazy.send(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 12)
        running.call_until(lambda broker: broker.buffered_bytes > limits.WRITE_HIGH_BYTES)
        _until_closed(running, other, clock, attackers=1)
        assert running.call(lambda broker: broker.connection_count) == 1


def test_slowly_sent_requests_do_not_block_others_and_their_memory_is_released(tmp_path: Path) -> None:
    """Seven connections exceed the memory budget. Each is in the middle of a request, of which it sends one byte now and then."""
    clock = MovableClock()
    with (
        RunningBroker(
            tmp_path / "data", {"queued.max.request.bytes": "7000000", "socket.request.max.bytes": "2000000"}, clock=clock
        ) as running,
        running.client() as other,
        ExitStack() as stack,
    ):
        holders = [stack.enter_context(running.client()) for _ in range(7)]
        for holder in holders:
            holder.send_raw(struct.pack(">i", 2_000_000) + bytes(1_500_000))
        running.call_until(lambda broker: broker.buffered_bytes > 7_000_000)
        for holder in holders:
            holder.send_raw(b"x")
        _until_closed(running, other, clock, attackers=7)
        assert running.call(lambda broker: broker.buffered_bytes) <= 7_000_000 * (limits.FREED_PART - 1) // limits.FREED_PART
        assert running.call(lambda broker: broker.connection_count) > 1, "no more of them are closed than memory needs"


def _long_poll(size: int, partitions: int = 1) -> bytes:
    """Return a Fetch of at least `size` bytes that waits. Bytes after the end of its fields are ignored, as in Kafka."""
    topics = [FetchTopic("t", partitions=[FetchPartition(index, partition_max_bytes=1_000) for index in range(partitions)])]
    request = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, topics=topics)
    body = b"".join(encode_request(1, 12, 7, "poll", request))[4:].ljust(size, b"\0")
    return struct.pack(">i", len(body)) + body


def test_large_requests_are_answered_while_the_largest_long_polls_wait(tmp_path: Path) -> None:
    names = [MetadataRequestTopic(name="x" * 200) for _ in range(limits.DECODED_AT_ONCE_BYTES // 200)]
    with RunningBroker(tmp_path / "data") as running, running.client() as client, ExitStack() as stack:
        create(client, "t")
        polls = limits.LARGE_REQUESTS_BYTES // limits.STRUCTURED_REQUEST_BYTES
        pollers = [stack.enter_context(running.client()) for _ in range(polls)]
        for poller in pollers:
            poller.send_raw(_long_poll(limits.STRUCTURED_REQUEST_BYTES))
        running.call_until(lambda broker: broker.services.fetch_purgatory.waiting == polls)
        assert client.call(MetadataRequest(names), 9).brokers
        assert running.call(lambda broker: broker.buffered_bytes) >= limits.LARGE_REQUESTS_BYTES
        produce(client, "t", b"now")
        for poller in pollers:
            assert poller.read_frame()
        assert running.call(lambda broker: broker.buffered_bytes) == 0


def test_connections_with_large_long_polls_are_closed_when_memory_is_short(tmp_path: Path) -> None:
    clock = MovableClock()
    with (
        RunningBroker(tmp_path / "data", {"queued.max.request.bytes": "1000000"}, clock=clock) as running,
        running.client() as other,
        ExitStack() as stack,
    ):
        create(other, "t")
        for waiting in range(1, 4):
            stack.enter_context(running.client()).send_raw(_long_poll(400_000))
            running.call_until(lambda broker, waiting=waiting: broker.services.fetch_purgatory.waiting == waiting)
        _until_closed(running, other, clock, attackers=3)
        assert running.call(lambda broker: broker.buffered_bytes) < 1_000_000
        assert running.call(lambda broker: broker.services.fetch_purgatory.waiting) == 2, "no more of them are closed than memory needs"


@pytest.mark.parametrize("partitions", [1, 2 * limits.FETCHED_AT_ONCE])
@pytest.mark.parametrize("size", [1_000, 400_000])
def test_a_long_poll_whose_client_disconnects_before_it_is_handled_does_not_wait(tmp_path: Path, partitions: int, size: int) -> None:
    async def compute(work: Callable[[], Any]) -> Any:
        return work()

    replies: list[asyncio.Future[Reply]] = []

    def handle(broker: Broker) -> None:
        tested = Dispatcher(broker.services, Faults(), compute=compute)
        tested.budget = budget
        peer = Peer(HOST, HOST, 1, Listener("PLAINTEXT", HOST, 1))
        found = tested.handle(peer, _long_poll(size, partitions)[4:])
        assert isinstance(found, asyncio.Future)
        replies.append(found)
        peer.closed()

    budget = ByteBudget()
    with RunningBroker(tmp_path / "data") as running, running.client() as client:
        create(client, "t", 2 * limits.FETCHED_AT_ONCE)
        running.call(handle)
        running.call_until(lambda _: replies[0].done())
        assert running.call(lambda broker: broker.services.fetch_purgatory.waiting) == 0
        assert budget.used == 0


def test_a_request_begun_during_a_shortage_is_answered_when_slow_connections_released_memory(tmp_path: Path) -> None:
    topics = [MetadataRequestTopic(name="x" * 200) for _ in range(2_000)]
    frame = b"".join(encode_request(3, 9, 7, "other", MetadataRequest(topics)))
    with (
        RunningBroker(tmp_path / "data", {"queued.max.request.bytes": "200000"}, clock=MovableClock()) as running,
        running.client() as other,
        ExitStack() as stack,
    ):
        holders = [stack.enter_context(running.client()) for _ in range(4)]
        for holder in holders:
            holder.send_raw(struct.pack(">i", 60_000) + b"x" * 50_000)
        running.call_until(lambda broker: broker.buffered_bytes > 200_000)
        running.call(lambda _: other.send_raw(frame[:100_000]))  # on the event loop, so that its first read gets more than a holder has
        running.call_until(lambda broker: broker.buffered_bytes > 250_000)
        other.send_raw(frame[100_000:])
        assert other.read_frame()


def test_responses_reach_a_slow_reader_that_keeps_sending_while_the_broker_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINGER_MS", 10_000)
    with RunningBroker(tmp_path / "data") as running, running.client() as client:
        create(client, "t")
        for _ in range(12):
            produce(client, "t", b"x" * 900_000)
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect((HOST, running.port))
        with slow:
            slow.settimeout(10)
            topics = [FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=20_000_000)])]
            slow.sendall(b"".join(encode_request(1, 12, 1, "test", FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics))))
            running.call_until(lambda broker: broker.buffered_bytes > limits.WRITE_HIGH_BYTES)
            slow.sendall(b"".join(encode_request(3, 9, 2, "test", MetadataRequest([]))))
            client.close()
            stopping = threading.Thread(target=running.stop)
            stopping.start()
            received = sum(iter(lambda: len(slow.recv(1 << 16)), 0))
        stopping.join(20)
    assert received > 10_800_000


def test_a_client_that_keeps_writing_during_a_stop_can_read_its_responses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINGER_MS", 10_000)
    ask = b"".join(encode_request(3, 9, 1, "test", MetadataRequest([])))
    with RunningBroker(tmp_path / "data") as running, socket.create_connection((HOST, running.port)) as hasty:
        hasty.settimeout(10)
        hasty.sendall(ask)
        begun = hasty.recv(4)
        running.call(lambda broker: broker.accept_no_more())
        for _ in range(3):
            hasty.sendall(ask)
        rest = b"".join(iter(lambda: hasty.recv(1 << 16), b""))
        assert struct.pack(">i", len(rest)) == begun


@pytest.mark.parametrize("linger_ms", [0, 1])
def test_a_client_that_stays_connected_does_not_delay_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linger_ms: int) -> None:
    monkeypatch.setattr(limits, "LINGER_MS", linger_ms)
    with RunningBroker(tmp_path / "data") as running, running.client() as client:
        assert client.call(MetadataRequest([])).brokers
        running.call(lambda broker: broker.accept_no_more())
        running.call_until(lambda broker: broker.connection_count == 0)

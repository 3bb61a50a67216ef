"""Clients that exceed their quotas: their throttle times, and the muting of their connections (KIP-219).

The broker's clock is advanced only by the tests, so every throttle time is exact and no test waits.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.core.clock import MovableClock, VirtualClock
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message
from tests.support.certificates import HOST, Certificates
from tests.support.logins import log_in, secured
from tests.support.quota_calls import ANYBODY, LOCAL, Target, set_quota
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create

CLIENT: Target = (("client-id", "test"),)
VALUE = bytes(20_000)
HANDSHAKE = b"\x16"
"""The first bytes of a TLS handshake record."""
WINDOW_S = 10
"""The shortest time over which a rate is measured."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker whose clock the test advances."""
    with RunningBroker(tmp_path / "data", {"connections.max.idle.ms": "30000"}, clock=VirtualClock()) as running:
        yield running


@pytest.fixture
def admin(broker: RunningBroker) -> Iterator[Client]:
    """A client without quotas; the broker has a topic `t`."""
    with broker.client("admin") as client:
        create(client, "t", 2)
        yield client


def produce_request(*, acks: int = -1) -> ProduceRequest:
    batch = build_batch([SimpleRecord(None, VALUE, 1)])
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])])


def fetch_request(offset: int = 0, **fields: Any) -> FetchRequest:
    topics = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=45_000)])]
    return FetchRequest(**{"max_bytes": 1 << 20, "session_epoch": -1, "topics": topics, **fields})


def size_of(request: Message, version: int) -> int:
    return len(b"".join(encode_request(request.API_KEY, version, 1, "test", request))) - PREFIX_BYTES


def wait_ms(amount: int, limit: float, window_s: int = WINDOW_S) -> int:
    """Return Kafka's throttle time in ms for a client that used `amount` at once, under a quota of `limit` a second."""
    return round((amount / window_s - limit) / limit * window_s * 1000)


def is_silent(client: Client, admin: Client) -> bool:
    """Return whether the client has no response yet, although a later request of another client was answered."""
    admin.call(ApiVersionsRequest("x", "1"))
    return not select.select([client], [], [], 0)[0]


def answer(client: Client, request: Message, version: int) -> Any:
    return decode_response(request.API_KEY, version, client.read_frame())[1]


ASK = ApiVersionsRequest("x", "1")


@pytest.mark.parametrize("version", [3, 7, 9, 13])
def test_a_producer_above_its_quota_gets_a_throttle_time_and_is_paused(broker: RunningBroker, admin: Client, version: int) -> None:
    set_quota(admin, CLIENT, producer_byte_rate=1000.0)
    request = produce_request()
    if version == 13:
        request.topic_data[0].topic_id = broker.broker.services.topics.image.topic_ids["t"]
    with broker.client() as client:
        response = client.call(request, version)
        expected = wait_ms(size_of(request, version), 1000)
        assert response.throttle_time_ms == expected
        assert response.responses[0].partition_responses[0].error_code == 0, "what was sent is written all the same"
        client.send(ASK, 3)
        broker.clock.advance((expected - 1) / 1000)
        assert is_silent(client, admin)
        broker.clock.advance(0.001)
        assert answer(client, ASK, 3).error_code == 0
        assert client.call(produce_request(), 9).throttle_time_ms > 0, "what it used before counts"


def test_a_producer_with_acks_0_is_paused(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, CLIENT, producer_byte_rate=1000.0)
    with broker.client() as client:
        client.call(produce_request(acks=0), 9)
        client.send(ASK, 3)
        assert is_silent(client, admin)
        broker.clock.advance(wait_ms(size_of(produce_request(acks=0), 9), 1000) / 1000)
        assert answer(client, ASK, 3).error_code == 0


def test_requests_with_acks_0_are_handled_after_the_pause_although_the_producer_closes(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, CLIENT, producer_byte_rate=1000.0)
    with broker.client() as client:
        client.call(produce_request(acks=0), 9)
        broker.call_until(lambda node: node.services.partitions.get("t", 0).log.log_end_offset == 1)
        client.call(produce_request(acks=0), 9)
    for _ in range(3):
        admin.call(ASK, 3)
    broker.clock.advance(wait_ms(size_of(produce_request(acks=0), 9), 1000) / 1000)
    broker.call_until(lambda node: node.services.partitions.get("t", 0).log.log_end_offset == 2)


def test_requests_before_authentication_are_not_charged(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "locked", secured()) as locked, locked.client("admin") as admin, locked.client() as client:
        log_in(admin)
        set_quota(admin, CLIENT, request_percentage=1e-6)
        assert client.call(ASK, 3).throttle_time_ms == 0
        assert log_in(client).error_code == 0
        assert client.call(ASK, 3).throttle_time_ms > 0


def test_a_client_within_its_quota_is_not_throttled(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, CLIENT, producer_byte_rate=100_000.0)
    with broker.client() as client:
        assert client.call(produce_request(), 9).throttle_time_ms == 0
    with broker.client("another") as client:
        assert [client.call(produce_request(), 9).throttle_time_ms for _ in range(100)] == [0] * 100


def test_all_connections_of_a_user_share_the_quota(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, ANYBODY, producer_byte_rate=3000.0)
    with broker.client("one") as one, broker.client("two") as two:
        assert one.call(produce_request(), 9).throttle_time_ms == 0
        assert two.call(produce_request(), 9).throttle_time_ms > 0


def test_a_removed_quota_no_longer_applies(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, CLIENT, producer_byte_rate=1.0)
    set_quota(admin, CLIENT, producer_byte_rate=None)
    with broker.client() as client:
        assert client.call(produce_request(), 9).throttle_time_ms == 0
    quotas = broker.broker.services.quotas
    assert quotas is not None
    assert not quotas.of_clients


def test_a_quota_applies_after_a_restart(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, CLIENT, producer_byte_rate=1000.0)
    broker.restart()
    with broker.client() as client:
        assert client.call(produce_request(), 9).throttle_time_ms == wait_ms(size_of(produce_request(), 9), 1000)


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_consumer_above_its_quota_gets_no_records_until_the_throttle_time_is_over(
    broker: RunningBroker, admin: Client, session_epoch: int
) -> None:
    for _ in range(5):
        admin.call(produce_request(), 9)
    set_quota(admin, CLIENT, consumer_byte_rate=5000.0)
    with broker.client() as client:
        first = client.call(fetch_request(session_epoch=session_epoch), 11)
        assert first.throttle_time_ms == 0
        assert len(first.responses[0].partitions[0].records) == 45_000
        request = fetch_request(2, session_id=first.session_id, session_epoch=session_epoch + (session_epoch == 0))
        second = client.call(request, 11)
        assert (second.responses, second.error_code, second.session_id) == ([], 0, first.session_id)
        assert second.throttle_time_ms > 0
        client.send(ASK, 3)
        assert is_silent(client, admin)
        broker.clock.advance(second.throttle_time_ms / 1000)
        assert answer(client, ASK, 3).error_code == 0
        broker.clock.advance(12)
        request.session_epoch += session_epoch == 0
        third = client.call(request, 11)
        assert third.throttle_time_ms == 0
        assert third.responses[0].partitions[0].records, "what was not sent is sent now"


def test_no_response_exceeds_the_quota_of_all_windows(broker: RunningBroker, admin: Client) -> None:
    for _ in range(3):
        admin.call(produce_request(), 9)
    set_quota(admin, CLIENT, consumer_byte_rate=3000.0)
    with broker.client() as client:
        answer = client.call(fetch_request(), 11)
        assert answer.throttle_time_ms < 100, "only what is around the records is too much"
        broker.clock.advance(answer.throttle_time_ms / 1000)
        assert len(client.call(fetch_request(), 11).responses[0].partitions[0].records) == 3000 * WINDOW_S


def test_a_fetch_session_whose_first_response_was_throttled_is_closed(broker: RunningBroker, admin: Client) -> None:
    admin.call(produce_request(), 9)
    set_quota(admin, CLIENT, consumer_byte_rate=1.0)
    with broker.client() as client:
        assert client.call(fetch_request(session_epoch=0), 11).session_id == 0
    assert len(broker.broker.services.fetch_sessions) == 0


def test_the_throttle_time_of_a_long_request_is_at_most_a_window(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", clock=MovableClock()) as broker, broker.client() as client:
        set_quota(client, CLIENT, request_percentage=0.000001)
        assert client.call(ASK, 3).throttle_time_ms == 1000
        client.send(ASK, 3)
        broker.clock.advance(1)
        assert answer(client, ASK, 3).throttle_time_ms == 1000


def create_request(name: str, partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1)])


def test_topics_beyond_the_mutation_quota_are_rejected_and_the_client_is_throttled(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, CLIENT, controller_mutation_rate=1.0)
    with broker.client() as client:
        made = client.call(create_request("a", 12), 7)
        assert (made.topics[0].error_code, made.throttle_time_ms) == (0, 0), "a bucket of 11 may be overdrawn once"
        refused = client.call(create_request("b", 1), 6)
        topic = refused.topics[0]
        assert (topic.error_code, topic.error_message) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
        assert refused.throttle_time_ms == 1000
        client.send(create_request("b", 1), 6)
        assert is_silent(client, admin)
        broker.clock.advance(1)
        assert answer(client, create_request("b", 1), 6).topics[0].error_code == 0
        grown = client.call(CreatePartitionsRequest([CreatePartitionsTopic("a", 13, None)]), 3)
        assert (grown.results[0].error_code, grown.throttle_time_ms) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1000)
        broker.clock.advance(1)
        gone = client.call(DeleteTopicsRequest(topic_names=["a"]), 5)
        assert gone.responses[0].error_code == 0
        again = client.call(DeleteTopicsRequest(topic_names=["b"]), 5)
        assert (again.responses[0].error_code, again.throttle_time_ms) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 12_000)


def test_an_automatically_created_topic_is_charged_to_its_client(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, CLIENT, controller_mutation_rate=1.0)

    def made(client: Client) -> list[str]:
        client.call(MetadataRequest([MetadataRequestTopic(name=f"made-{number}") for number in range(5)], True), 9)
        with broker.client("last") as last:  # earlier decisions are applied first
            last.call(create_request(f"last-{broker.clock.now_ms()}", 1), 7)
        return [name for name in broker.topics.names() if name.startswith("made")]

    with broker.client() as client:
        client.call(create_request("a", 12), 7)
        assert made(client) == [], "the bucket is overdrawn"
        broker.clock.advance(5)
        assert len(made(client)) == 5
        assert client.call(create_request("b", 1), 7).topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_older_clients_are_served_and_throttled(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, CLIENT, controller_mutation_rate=1.0)
    with broker.client() as client:
        made = client.call(create_request("a", 20), 5)
        assert (made.topics[0].error_code, made.throttle_time_ms) == (0, 9_000)
        broker.clock.advance(9)
        gone = client.call(DeleteTopicsRequest(topic_names=["a"]), 4)
        assert (gone.responses[0].error_code, gone.throttle_time_ms) == (0, 20_000)


def test_a_throttled_client_is_not_idle_and_its_disconnect_is_noticed(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, CLIENT, producer_byte_rate=1.0)
    with broker.client() as client:
        assert client.call(produce_request(), 9).throttle_time_ms > 1_000_000
        for _ in range(50):
            broker.clock.advance(1)
            admin.call(ASK, 3)
        assert broker.broker.connection_count == 2
    broker.call_until(lambda running: running.connection_count == 1)


@pytest.mark.parametrize("whose", ["", "listener.name.plaintext."])
def test_connections_above_a_rate_are_delayed(broker: RunningBroker, admin: Client, whose: str) -> None:
    admin.call(alter_broker({f"{whose}max.connection.creation.rate": "1"}))
    for _ in range(10):
        with broker.client() as early:
            assert early.call(ASK, 3).error_code == 0
    made = broker.call(lambda running: running.connections_made)
    with broker.client() as late:
        late.send(ASK, 3)
        broker.call_until(lambda running: running.connections_made > made)
        assert is_silent(late, admin)
        broker.clock.advance(1)
        assert answer(late, ASK, 3).error_code == 0


def test_connections_above_their_addresss_rate_are_closed_after_a_delay(broker: RunningBroker, admin: Client) -> None:
    set_quota(admin, LOCAL, connection_creation_rate=1.0)
    for _ in range(10):
        with broker.client() as early:
            assert early.call(ASK, 3).error_code == 0
    with broker.client() as late:
        late.send(ASK, 3)
        assert is_silent(late, admin)
        broker.clock.advance(1)
        with pytest.raises(ConnectionError):
            late.read_frame()
    broker.clock.advance(11)
    with broker.client() as later:
        assert later.call(ASK, 3).error_code == 0


def test_a_delayed_connection_starts_its_tls_handshake_after_the_delay(tmp_path: Path) -> None:
    made = Certificates(tmp_path / "tls")
    context, to_broker = ssl.create_default_context(cafile=made.ca), ssl.MemoryBIO()
    shaking = context.wrap_bio(ssl.MemoryBIO(), to_broker, server_hostname=HOST)
    with suppress(ssl.SSLWantReadError):
        shaking.do_handshake()
    given = {"listeners": f"A://{HOST}:0,S://{HOST}:0", "listener.security.protocol.map": "A:PLAINTEXT,S:SSL", **made.pem_settings()}
    with RunningBroker(tmp_path / "data", {**given, "inter.broker.listener.name": "A"}, clock=VirtualClock()) as running:
        hello, port = to_broker.read(), running.call(lambda broker: broker.services.listeners[1].port)

        def begun() -> socket.socket:
            connected = socket.create_connection((HOST, port), 10)
            connected.sendall(hello)
            return connected

        with running.client("admin") as admin:
            admin.call(alter_broker({"listener.name.s.max.connection.creation.rate": "1"}))
            for _ in range(10):
                with begun() as early:
                    assert early.recv(1) == HANDSHAKE
            with begun() as late:
                running.call_until(lambda broker: broker.connections_made == 12)
                for _ in range(20):
                    admin.call(ASK, 3)
                assert not select.select([late], [], [], 0)[0]
                running.clock.advance(1)
                assert late.recv(1) == HANDSHAKE
            set_quota(admin, LOCAL, connection_creation_rate=1.0)
            running.clock.advance(20)  # so that the listener's rate delays no connection
            for _ in range(10):
                with running.client() as other:
                    assert other.call(ASK, 3).error_code == 0
            with begun() as refused:
                running.call_until(lambda broker: broker.connections_made == 23)
                running.clock.advance(1)
                assert received(refused) in {b"", None}


def received(connected: socket.socket) -> bytes | None:
    """Return the next response, or None if the broker closed the connection."""
    try:
        return connected.recv(1)
    except ConnectionError:
        return None


def alter_broker(settings: dict[str, str]) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", [AlterableConfig(name, 0, to) for name, to in settings.items()])])

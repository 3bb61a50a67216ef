"""`ottla serve` as a process: its start-up line, its refusals, its signals, and what a connection may do to it."""

from __future__ import annotations

import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.client import Client
from protocol.codec import decode_response
from protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.k03_metadata import MetadataRequest
from tests.support.running_broker import HOST, BrokerProcess, RunningBroker
from tests.support.topic_calls import create, produce


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as running:
        yield running


def test_the_start_up_line_says_where_to_connect_and_where_the_data_is(process: BrokerProcess) -> None:
    with process.client() as client:
        metadata = client.call(MetadataRequest(None))
    assert f"listening on {process.bootstrap} (data in {process.data_dir}, cluster id {metadata.cluster_id}," in process.start_line
    assert [(node.host, node.port) for node in metadata.brokers] == [(HOST, process.port)]


def test_the_port_file_has_the_port(tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    with BrokerProcess(tmp_path / "data", f"--port-file={port_file}") as running:
        assert running.start_line
        running.stop()
    assert int(port_file.read_text()) == running.port


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_what_waits_is_answered_first(process: BrokerProcess, number: signal.Signals) -> None:
    with process.client() as client, process.client() as reader:
        create(client, "t")
        asked = FetchRequest(
            max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=1000)])]
        )
        reader.send(asked, 12)
        produce(client, "t", b"x", partition=0)
        reader.read_frame()
        reader.send(FetchRequest(max_wait_ms=60_000, min_bytes=10**6, topics=asked.topics), 12)
        process.signal(number)
        assert decode_response(1, 12, reader.read_frame())[1].error_code == 0
    assert process.wait() == 0
    assert (process.data_dir / ".kafka_cleanshutdown").exists()


def test_after_sigkill_what_was_acknowledged_is_there(process: BrokerProcess) -> None:
    with process.client() as client:
        create(client, "t")
        assert [produce(client, "t", b"x") for _ in range(10)] == list(range(10))
    process.kill()
    assert not (process.data_dir / ".kafka_cleanshutdown").exists()
    process.start()
    with process.client() as client:
        assert produce(client, "t", b"x") == 10


def test_a_second_broker_on_the_same_directory_is_refused_by_name(process: BrokerProcess) -> None:
    with pytest.raises(RuntimeError, match=r"ended with 1: .*data"):
        BrokerProcess(process.data_dir).start()


def test_a_taken_port_is_refused_before_the_directory_is_touched(process: BrokerProcess, tmp_path: Path) -> None:
    second = BrokerProcess(tmp_path / "other")
    second.port = process.port
    with pytest.raises(RuntimeError, match=f"cannot listen on PLAINTEXT://{HOST}:{process.port}"):
        second.start()
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--set=log.segment.byte=1", "did you mean log.segment.bytes"),
        ("--set=num.partitions=0", "allowed is at least 1"),
        ("--fault=lose", "unknown fault 'lose'"),
        ("--set=listener.security.protocol.map=PLAINTEXT:SSL", "PLAINTEXT uses SSL; only PLAINTEXT is available"),
    ],
)
def test_a_mistake_in_the_settings_stops_the_start_with_exit_code_2(tmp_path: Path, option: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=f"ended with 2: .*{words}"):
        BrokerProcess(tmp_path / "data", option).start()


def test_dropped_acknowledgements_are_appended_and_counted(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", "--fault=drop-ack:api=Produce,share=1") as running:
        with running.client() as client:
            create(client, "t")
            with pytest.raises(ConnectionError):
                produce(client, "t", b"x")
        running.stop()
        assert "drop-ack of PRODUCE: 1 of 1 responses dropped" in running.log_text()
    with BrokerProcess(tmp_path / "data") as again, again.client() as client:
        assert produce(client, "t", b"y") == 1


# --- connections ------------------------------------------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as running, running.client() as client:
        create(client, "t")
        wait = FetchRequest(max_wait_ms=50, min_bytes=1, topics=[FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=1000)])])
        sent = [client.send(wait, 12), client.send(MetadataRequest([]), 9), client.send(MetadataRequest(None), 9)]
        assert [struct.unpack_from(">i", client.read_frame())[0] for _ in sent] == sent


def test_garbage_closes_its_own_connection_and_no_other(tmp_path: Path) -> None:
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


def test_an_idle_connection_is_closed_and_one_that_waits_is_not(tmp_path: Path) -> None:
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


def test_a_client_that_does_not_read_its_responses_holds_little_memory(tmp_path: Path) -> None:
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

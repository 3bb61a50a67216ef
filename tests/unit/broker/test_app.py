from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.process import StartError
from ottla.protocol.codec import decode_response
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.running_broker import HOST, RunningBroker
from tests.support.topic_calls import create, produce


def test_a_stop_answers_waiting_long_polls_and_closes(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as running, running.client() as client:
        create(client, "t")
        produce(client, "t", b"x")
        topics = [FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=1000)])]
        client.send(FetchRequest(max_wait_ms=60_000, min_bytes=10**6, topics=topics), 12)
        running.call_until(lambda broker: broker.services.fetch_purgatory.waiting == 1)
        running.stop()
        assert decode_response(1, 12, client.read_frame())[1].responses[0].partitions[0].high_watermark == 1
        with pytest.raises(ConnectionError):
            client.read_frame()


def test_a_clean_stop_writes_the_marker_and_a_start_removes_it(tmp_path: Path) -> None:
    marker = tmp_path / "data" / ".kafka_cleanshutdown"
    running = RunningBroker(tmp_path / "data").start()
    running.stop()
    assert marker.exists()
    running.start()
    assert not marker.exists()
    running.kill()
    assert not marker.exists()


def test_a_directory_in_use_is_refused_and_usable_afterwards(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data"), pytest.raises(StartError, match=str(tmp_path / "data")):
        RunningBroker(tmp_path / "data").start()
    with RunningBroker(tmp_path / "data") as again, again.client() as client:
        assert client.call(MetadataRequest([])).brokers


def test_a_taken_port_leaves_the_directory_untouched(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on PLAINTEXT://{HOST}:{port}"):
            RunningBroker(tmp_path / "data", {"listeners": f"PLAINTEXT://{HOST}:{port}"}).start()
    assert not (tmp_path / "data").exists()


def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    RunningBroker(tmp_path / "data").start().stop()
    with pytest.raises(StartError, match="node"):
        RunningBroker(tmp_path / "data", {"node.id": "9"}).start()


def test_several_listeners_each_advertise_their_own_address(tmp_path: Path) -> None:
    settings = {
        "listeners": f"INNER://{HOST}:0,OUTER://{HOST}:0",
        "advertised.listeners": "OUTER://kafka.example:19092",
        "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT",
    }
    with RunningBroker(tmp_path / "data", settings) as running:
        ports = [listener.port for listener in running.broker.services.listeners]
        advertised = []
        for port in ports:
            with running.client(port=port) as client:
                (node,) = client.call(MetadataRequest([])).brokers
                advertised.append((node.host, node.port))
    assert advertised == [(HOST, ports[0]), ("kafka.example", 19092)]


SERVING = """
import os, signal, sys
from ottla.broker import process
from ottla.broker.cli.serve import main
def announced(*_):
    print(*sys.modules)
    os.kill(os.getpid(), signal.SIGTERM)
process._announce = announced
main(["--port", "0", "--data-dir", sys.argv[1]])
"""
FOR_LATER = {
    *("xml", "http", "email", "csv", "importlib.metadata", "hashlib", "uuid", "platform", "ctypes"),
    *("shutil", "bz2", "lzma", "encodings.idna", "unicodedata"),
    *("typer", "rich", "cryptography", "re2"),
}


def test_a_serving_broker_has_not_imported_unneeded_libraries(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", SERVING, str(tmp_path / "data")]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert "ottla.broker.app" in loaded
    assert FOR_LATER.isdisjoint(loaded)


LOADED = """
import sys, ottla.broker.app
from ottla.broker.api.routes import load_all
load_all()
print(*sys.modules)
"""


def test_a_broker_does_not_keep_rarely_used_libraries() -> None:
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()
    assert {"re2", "difflib", "xxhash", "lz4", "cramjam", "zstandard", "typer", "rich", "aiokafka", "ottla.broker.telemetry"}.isdisjoint(
        loaded
    )

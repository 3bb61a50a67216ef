from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import ELEMENTS_MAX, Client
from ottla.protocol.codec import decode_request, encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import FrameTooLarge, ProtocolError, UnsupportedVersion
from ottla.protocol.frame import FrameReader
from ottla.protocol.messages.k00_produce import ProduceRequest
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsResponse

Answer = Callable[[bytes], bytes | None]
VERSIONS = {ApiKey.METADATA: (0, 9), ApiKey.HEARTBEAT: (5, 6), ApiKey.API_VERSIONS: (0, 4)}


@contextmanager
def peer(answer: Answer) -> Iterator[int]:
    """Run a server for one connection: `answer` gets each frame and returns the bytes to send, or None to close. Yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as connection:
                reader = FrameReader(1_000_000)
                while data := connection.recv(65536):
                    for frame in reader.feed(data):
                        reply = answer(bytes(frame))
                        if reply is None:
                            return
                        connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def api_versions(error: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    return ApiVersionsResponse(error, [ApiVersion(key, *versions) for key, versions in VERSIONS.items()])


def reply_to(frame: bytes, response: Any, version: int | None = None, shift: int = 0) -> bytes:
    header = decode_request(frame).header
    at = header.api_version if version is None else version
    return b"".join(encode_response(header.api_key, at, header.correlation_id + shift, response))


def broker(frame: bytes) -> bytes:
    """Answer like a broker that knows only ApiVersions and Metadata."""
    body = decode_request(frame).body
    return reply_to(frame, MetadataResponse(cluster_id="c") if isinstance(body, MetadataRequest) else api_versions())


def test_call_uses_the_highest_common_version() -> None:
    seen = []

    def answer(frame: bytes) -> bytes:
        header = decode_request(frame).header
        seen.append((header.api_key, header.api_version, header.client_id))
        return broker(frame)

    with peer(answer) as port, Client("127.0.0.1", port, client_id="me") as client:
        assert client.call(MetadataRequest()).cluster_id == "c"
        client.call(MetadataRequest(), version=4)
    assert seen == [(ApiKey.API_VERSIONS, 4, "me"), (ApiKey.METADATA, 9, "me"), (ApiKey.METADATA, 4, "me")]


def test_rejected_api_versions_request_is_repeated_in_the_brokers_version() -> None:
    seen = []

    def answer(frame: bytes) -> bytes:
        version = decode_request(frame).header.api_version
        seen.append(version)
        if version <= 2:
            return reply_to(frame, api_versions())
        refusal = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(ApiKey.API_VERSIONS, 0, 2)])
        return reply_to(frame, refusal, version=0)

    with peer(answer) as port, Client("127.0.0.1", port) as client:
        assert client.highest_version(MetadataRequest) == 9
    assert seen == [4, 2]


@pytest.mark.parametrize("message", [HeartbeatRequest, ProduceRequest])
def test_api_without_a_common_version_is_not_sent(message: type[HeartbeatRequest]) -> None:
    with peer(broker) as port, Client("127.0.0.1", port) as client, pytest.raises(UnsupportedVersion):
        client.call(message())


def test_produce_with_acks_0_does_not_wait() -> None:
    with peer(lambda frame: b"") as port, Client("127.0.0.1", port) as client:
        assert client.call(ProduceRequest(acks=0), version=9) is None


def test_closed_connection_is_a_connection_error() -> None:
    with peer(lambda frame: None) as port, Client("127.0.0.1", port) as client, pytest.raises(ConnectionError, match="closed"):
        client.call(HeartbeatRequest(), version=4)


def test_silent_peer_is_a_timeout() -> None:
    with peer(lambda frame: b"") as port, Client("127.0.0.1", port, timeout_s=0.05) as client, pytest.raises(TimeoutError):
        client.call(HeartbeatRequest(), version=4)


def test_response_to_another_request_is_a_protocol_error() -> None:
    def answer(frame: bytes) -> bytes:
        return reply_to(frame, HeartbeatResponse(), shift=1)

    with peer(answer) as port, Client("127.0.0.1", port) as client, pytest.raises(ProtocolError, match="correlation id 2 instead of 1"):
        client.call(HeartbeatRequest(), version=4)


def test_peer_with_another_protocol_is_a_protocol_error() -> None:
    with peer(lambda frame: b"HTTP/1.1 400 Bad Request\r\n") as port, Client("127.0.0.1", port) as client, pytest.raises(FrameTooLarge):
        client.call(HeartbeatRequest(), version=4)


def test_response_with_too_many_elements_is_a_protocol_error() -> None:
    partition = MetadataResponsePartition(replica_nodes=[1] * ELEMENTS_MAX)
    found = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])])
    with peer(lambda frame: reply_to(frame, found)) as port, Client("127.0.0.1", port) as client:
        with pytest.raises(ProtocolError, match=f"more than {ELEMENTS_MAX} elements"):
            client.call(MetadataRequest(), version=9)
        partition.replica_nodes = partition.replica_nodes[:-2]
        assert len(client.call(MetadataRequest(), version=9).topics[0].partitions[0].replica_nodes) == ELEMENTS_MAX - 2


def test_client_reads_pipelined_responses_in_order() -> None:
    with peer(broker) as port, Client("127.0.0.1", port) as client:
        sent = [client.send(MetadataRequest(), 9) for _ in range(5)]
        assert [int.from_bytes(client.read_frame()[:4], "big") for _ in sent] == sent


def test_refused_connection_is_an_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(OSError, match="refused"):
        Client("127.0.0.1", port)

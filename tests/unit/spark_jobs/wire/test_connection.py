"""Connections with TLS and SASL against a scripted broker; against Apache Kafka: tests/scenario."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.protocol.codec import decode_request, encode_response
from ottla.protocol.frame import FrameReader
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeResponse
from ottla.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.spark_jobs.wire.address import Address, address
from ottla.spark_jobs.wire.connection import NotAuthenticated, connect
from tests.support.secure_kafka import HOST, certificates

APIS = [ApiVersion(17, 0, 1), ApiVersion(18, 0, 3), ApiVersion(36, 0, 2)]
Answer = Callable[[bytes], SaslAuthenticateResponse]


@contextmanager
def broker(answer: Answer, mechanisms: list[str], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve one connection as a broker with these SASL mechanisms; yield `host:port`."""
    with socket.create_server((HOST, 0)) as listening:
        serving = threading.Thread(target=_serve, args=(listening, answer, mechanisms, tls))
        serving.start()
        yield f"{HOST}:{listening.getsockname()[1]}"
        serving.join(10)


def _serve(listening: socket.socket, answer: Answer, mechanisms: list[str], tls: ssl.SSLContext | None) -> None:
    accepted, _ = listening.accept()
    with accepted if tls is None else tls.wrap_socket(accepted, server_side=True) as peer:
        frames = FrameReader(1 << 20)
        while data := peer.recv(1 << 16):
            for frame in frames.feed(data):
                request = decode_request(frame)
                key, version, correlation = request.header.api_key, request.header.api_version, request.header.correlation_id
                if key == 18:
                    response: object = ApiVersionsResponse(api_keys=APIS)
                elif key == 17:
                    unknown = request.body.mechanism not in mechanisms
                    response = SaslHandshakeResponse(error_code=33 if unknown else 0, mechanisms=mechanisms)
                else:
                    assert isinstance(request.body, SaslAuthenticateRequest)
                    response = answer(bytes(request.body.auth_bytes))
                peer.sendall(b"".join(encode_response(key, version, correlation, response)))  # type: ignore[arg-type]  # one of the three


def to(server: str, mechanism: str, **more: str) -> Address:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": "ann", "sasl.password": "pw"}
    return address(server, given | {name.replace("_", "."): value for name, value in more.items()})


def test_plain_sends_user_and_password_and_over_tls_only_to_the_right_host(tmp_path: Path) -> None:
    files = certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server)
    sent: list[bytes] = []

    def answer(token: bytes) -> SaslAuthenticateResponse:
        sent.append(token)
        return SaslAuthenticateResponse()

    with broker(answer, ["PLAIN"], context) as server:
        where = to(server, "PLAIN", security_protocol="SASL_SSL", ssl_ca_location=str(files.ca))
        connect(where, *where.servers[0]).close()
    assert sent == [b"\0ann\0pw"]


def test_unsupported_mechanism_is_reported_with_the_offered_ones() -> None:
    with broker(lambda _token: SaslAuthenticateResponse(), ["GSSAPI"]) as server:
        where = to(server, "PLAIN")
        with pytest.raises(NotAuthenticated, match="does not support PLAIN; it offers GSSAPI"):
            connect(where, *where.servers[0])


def test_rejection_is_reported_in_the_brokers_words() -> None:
    with broker(lambda _token: SaslAuthenticateResponse(error_code=58, error_message="go away"), ["PLAIN"]) as server:
        where = to(server, "PLAIN")
        with pytest.raises(NotAuthenticated, match="go away"):
            connect(where, *where.servers[0])


def test_broker_that_does_not_prove_the_password_is_not_trusted() -> None:
    def answer(token: bytes) -> SaslAuthenticateResponse:
        if token.startswith(b"n,,"):
            nonce = token.rpartition(b"r=")[2]
            return SaslAuthenticateResponse(auth_bytes=b"r=" + nonce + b"more,s=c2FsdA==,i=4096")
        return SaslAuthenticateResponse(auth_bytes=b"v=d3JvbmcgcHJvb2YgZnJvbSB0aGUgc2VydmVyIQ==")

    with broker(answer, ["SCRAM-SHA-256"]) as server:
        where = to(server, "SCRAM-SHA-256")
        with pytest.raises(NotAuthenticated, match="SCRAM-SHA-256"):
            connect(where, *where.servers[0])

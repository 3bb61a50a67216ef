"""SASL without a client library: the tokens of clients, and a connection on which a test sends any frame."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import struct
from typing import Any

from ottla.broker.testing.in_process import HOST
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

MODULES = "org.apache.kafka.common.security"
PLAIN_JAAS = f'{MODULES}.plain.PlainLoginModule required user_ann="pass word" user_bob="b;\\"b";'
SCRAM_JAAS = f"{MODULES}.scram.ScramLoginModule required;"


def secured(protocol: str = "SASL_PLAINTEXT", **others: str) -> dict[str, str]:
    """Return the settings of a broker with one listener, SECURE, where users authenticate by PLAIN or SCRAM."""
    return {
        "listeners": f"SECURE://{HOST}:0",
        "listener.security.protocol.map": f"SECURE:{protocol}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.secure.plain.sasl.jaas.config": PLAIN_JAAS,
        "listener.name.secure.scram-sha-256.sasl.jaas.config": SCRAM_JAAS,
        "listener.name.secure.scram-sha-512.sasl.jaas.config": SCRAM_JAAS,
        **{name.replace("_", "."): text for name, text in others.items()},
    }


def plain(user: str = "ann", password: str = "pass word", other: str = "") -> bytes:
    return f"{other}\0{user}\0{password}".encode()


class ScramClient:
    """The client side of SCRAM, written from RFC 5802 independently of the project's own."""

    def __init__(self, user: str, password: str, name: str = "sha256", extensions: str = "") -> None:
        self._password, self._name = password, name
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r=fyko{extensions}"
        self._server_signature = b""

    def first(self) -> bytes:
        return b"n,," + self._bare.encode()

    def final(self, server_first: bytes) -> bytes:
        fields = dict(item.split("=", 1) for item in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(self._name, self._password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        client_key = hmac.digest(salted, b"Client Key", self._name)
        without_proof = f"c=biws,r={fields['r']}"
        signed = f"{self._bare},{server_first.decode()},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(self._name, client_key).digest(), signed, self._name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", self._name), signed, self._name)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def trusts(self, server_final: bytes) -> bool:
        return server_final == b"v=" + base64.b64encode(self._server_signature)


def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
    answer: SaslHandshakeResponse = client.call(SaslHandshakeRequest(mechanism), version)
    return answer


def authenticate(client: Client, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    answer: SaslAuthenticateResponse = client.call(SaslAuthenticateRequest(token), version)
    return answer


def log_in(client: Client, token: bytes | None = None) -> SaslAuthenticateResponse:
    """Authenticate with SASL/PLAIN, with this token or by default valid credentials; return the last response."""
    handshake(client)
    return authenticate(client, plain() if token is None else token)


class BareConnection:
    """A connection on which a test sends frames without a request header, or any bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), 10)

    def __enter__(self) -> BareConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> bytes | None:
        """Return the next frame; None if the broker closed the connection."""
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def ask(self, request: Any, version: int) -> Any:
        """Send a request with its header, and return the response."""
        from ottla.protocol.codec import encode_request

        self.socket.sendall(b"".join(encode_request(request.API_KEY, version, 7, "t", request)))
        frame = self.receive()
        return None if frame is None else decode_response(request.API_KEY, version, memoryview(frame))[1]

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return data

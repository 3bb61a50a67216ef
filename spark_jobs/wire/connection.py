"""Opens a connection to a broker, with TLS and SASL as configured, on top of the protocol's blocking client.

Invariants:
- Before authentication the client sends only ApiVersions and the SASL requests (KIP-43, KIP-152).
- With SCRAM the client also verifies the server's signature.
"""

from __future__ import annotations

import socket

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.login import NotTrusted, send_all
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.spark_jobs.wire.address import Address
from ottla.spark_jobs.wire.security import Security


class NotAuthenticated(OSError):
    """The broker rejected the credentials, or did not prove that it knows the password (SCRAM)."""


def connect(address: Address, host: str, port: int) -> Client:
    """Open a connection to the broker at `host`:`port`, authenticated with the security settings in `address`. Raises OSError if that
    fails: NotAuthenticated if the broker rejects the credentials, ssl.SSLError for a TLS error."""
    security = address.security

    def wrap(connected: socket.socket) -> socket.socket:
        return security.tls().wrap_socket(connected, server_hostname=host)

    client = Client(
        host,
        port,
        client_id=address.client_id,
        timeout_s=address.timeout_s,
        **{"wrap": wrap} if security.encrypted else {},
    )
    try:
        if security.mechanism:
            _authenticate(client, security, host)
    except BaseException:
        client.close()
        raise
    return client


def _authenticate(client: Client, security: Security, host: str) -> None:
    answer = client.call(SaslHandshakeRequest(mechanism=security.mechanism))
    if answer.error_code:
        offered = ", ".join(answer.mechanisms)
        raise NotAuthenticated(f"the broker does not support {security.mechanism}; it offers {offered or 'nothing'}")

    def ask(token: bytes) -> bytes:
        response = client.call(SaslAuthenticateRequest(token))
        if response.error_code:
            raise NotAuthenticated(f"the broker rejected the credentials: {response.error_message or ErrorCode(response.error_code).name}")
        return bytes(response.auth_bytes)

    try:
        send_all(security.tokens(host), ask)
    except NotTrusted as error:
        raise NotAuthenticated(f"{security.mechanism}: {error}") from error

"""One connection to a broker, encrypted and authenticated as asked, on top of the protocol's blocking client.

Rules that hold here: nothing is asked of a broker before the connection is authenticated but which versions it speaks (KIP-43,
KIP-152); the server's proof in SCRAM is checked, too.
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
    """The broker does not let this client in, or could not prove that it knows the password."""


def connect(address: Address, host: str, port: int) -> Client:
    """A connection that can be used. Raises OSError, `NotAuthenticated` and ssl.SSLError among them."""
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
        raise NotAuthenticated(f"the broker does not take {security.mechanism}; it offers {offered or 'nothing'}")

    def ask(token: bytes) -> bytes:
        told = client.call(SaslAuthenticateRequest(token))
        if told.error_code:
            raise NotAuthenticated(f"the broker does not let the user in: {told.error_message or ErrorCode(told.error_code).name}")
        return bytes(told.auth_bytes)

    try:
        send_all(security.tokens(host), ask)
    except NotTrusted as error:
        raise NotAuthenticated(f"{security.mechanism}: {error}") from error

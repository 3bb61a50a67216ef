"""Client security of the commands: TLS and SASL settings from `ottla --config client.properties …`, under Kafka's names for clients.

Rules:
- The file may be one of Kafka's own tools, of librdkafka or of kafka-python.
- An unsupported security property is rejected, never ignored.
- No message contains a password.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ottla.broker.cli.basics import CliError
from ottla.protocol.client import TIMEOUT_S, Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.import_without_init import module_of
from ottla.protocol.login import NotTrusted, send_all
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.printable import reason_of
from ottla.spark_jobs.wire.security import Security, security_of


class _Settings:
    """The client security settings of all connections of this process, as `ottla --config` or a tool has set them."""

    security = Security()


def security_in(file: Path) -> Security:
    """Return the client security settings in a properties file. Raises `CliError` if the file cannot be read or a setting is invalid."""
    try:
        with file.open(encoding="utf-8") as lines:
            return security_of(module_of("javaproperties", "reading").load(lines))
    except OSError as error:
        raise CliError(f"the client security settings {file} cannot be read: {reason_of(error)}", exit_code=2) from None
    except ValueError as error:
        raise CliError(f"{file}: {error}", exit_code=2) from None


def use(file: Path) -> None:
    """Use the client security settings in this properties file for all connections from now on. Raises `CliError` if the file cannot be
    read or a setting is invalid."""
    _Settings.security = security_in(file)


def use_properties(properties: Mapping[str, str]) -> None:
    """Use the client security settings in these client properties for all connections from now on. Raises `CliError` if a setting is
    invalid."""
    try:
        _Settings.security = security_of(properties)
    except (OSError, ValueError) as error:
        raise CliError(str(error), exit_code=2) from None


def connect(host: str, port: int, client_id: str, timeout_s: float = TIMEOUT_S, security: Security | None = None) -> Client:
    """Connect and authenticate with `security`, by default the settings of `ottla --config`. `timeout_s` limits each step.

    Raises OSError (including ssl.SSLError), and `CliError` if authentication fails.
    """
    security = security or _Settings.security

    def wrap(connected: socket.socket) -> socket.socket:
        return security.tls().wrap_socket(connected, server_hostname=host) if security.encrypted else connected

    client = Client(host, port, client_id=client_id, timeout_s=timeout_s, wrap=wrap)
    try:
        if security.mechanism:
            _log_in(client, security, host)
    except BaseException:
        client.close()
        raise
    return client


def for_aiokafka() -> dict[str, Any]:
    """Return keyword arguments for aiokafka's clients: the client security settings of this process. Raises CliError for authentication
    that aiokafka does not support, OSError if a certificate file cannot be read."""
    security = _Settings.security
    if security.by_token:
        raise CliError(
            "this command uses aiokafka, which does not support delegation tokens (tokenauth=true): authenticate as a user instead", 2
        )
    kerberos = security.kerberos
    if kerberos is not None and find_spec("gssapi") is None:
        raise CliError("GSSAPI needs python-gssapi: pip install 'ottla[gssapi]'", 2)
    if kerberos is not None and (kerberos.keytab or kerberos.cache or kerberos.principal):
        raise CliError(
            "this command uses aiokafka, which takes the ticket of this user: get one with 'kinit -kt KEYTAB PRINCIPAL', and leave keytab, "
            "ticketCache and principal out of the --config file",
            2,
        )
    found: dict[str, Any] = {"security_protocol": security.protocol}
    if security.encrypted:
        found["ssl_context"] = security.tls()
    if kerberos is not None:
        found |= {"sasl_mechanism": security.mechanism, "sasl_kerberos_service_name": kerberos.service}
    elif security.mechanism:
        found |= {"sasl_mechanism": security.mechanism, "sasl_plain_username": security.username, "sasl_plain_password": security.password}
    return found


def _log_in(client: Client, security: Security, host: str) -> None:
    answer = client.call(SaslHandshakeRequest(security.mechanism))
    if answer.error_code:
        raise CliError(f"the broker does not support {security.mechanism}; it offers {', '.join(answer.mechanisms) or 'nothing'}")

    def ask(token: bytes) -> bytes:
        response = client.call(SaslAuthenticateRequest(token))
        if response.error_code:
            who = security.username or "the ticket's principal"
            raise CliError(f"authentication of {who} failed: {response.error_message or ErrorCode(response.error_code).name}")
        return bytes(response.auth_bytes)

    try:
        send_all(security.tokens(host), ask)
    except NotTrusted as error:
        why = "the broker could not prove its identity" if security.kerberos is None else "Kerberos authentication failed"
        raise CliError(f"{why}: {error}") from None

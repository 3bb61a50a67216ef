"""How the commands come in where a cluster asks who they are: `ottla --config client.properties …`, in Kafka's names for clients.

Rules: the file is that of Kafka's own tools, of librdkafka or of kafka-python; a property about security that is not understood is refused,
never passed over; passwords appear in no text.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ottla.broker.cli.basics import CliError
from ottla.protocol.bodiless import module_of
from ottla.protocol.client import TIMEOUT_S, Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.login import NotTrusted, send_all
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.spark_jobs.wire.security import Security, security_of


class _Given:
    """What the root command was given, for whichever command runs."""

    security = Security()


def security_in(file: Path) -> Security:
    """What the file says. Raises `CliError`."""
    try:
        with file.open(encoding="utf-8") as lines:
            return security_of(module_of("javaproperties", "reading").load(lines))
    except (OSError, ValueError) as error:
        raise CliError(f"{file}: {error}", exit_code=2) from None


def use(file: Path) -> None:
    """From now on every connection is made so. Raises `CliError`."""
    _Given.security = security_in(file)


def use_properties(properties: Mapping[str, str]) -> None:
    """As `use`, where they are read already. Raises `CliError`."""
    try:
        _Given.security = security_of(properties)
    except (OSError, ValueError) as error:
        raise CliError(str(error), exit_code=2) from None


def connect(host: str, port: int, client_id: str, timeout_s: float = TIMEOUT_S, security: Security | None = None) -> Client:
    """A connection that can be used, made as `security` says or else as was given; `timeout_s` bounds each step of it.

    Raises OSError (ssl.SSLError among them), and `CliError` where nobody is let in.
    """
    security = security or _Given.security

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
    """Keyword arguments of aiokafka's clients. Raises OSError, and `CliError` for a log-in that they have not."""
    security = _Given.security
    if security.by_token:
        raise CliError(
            "aiokafka, which sends and reads records here, cannot log in by a delegation token (tokenauth=true): log in as a user", 2
        )
    kerberos = security.kerberos
    if kerberos is not None and find_spec("gssapi") is None:
        raise CliError("GSSAPI needs python-gssapi: pip install 'ottla[gssapi]'", 2)
    if kerberos is not None and (kerberos.keytab or kerberos.cache or kerberos.principal):
        raise CliError(
            "aiokafka, which sends and reads records here, takes the ticket of this user: 'kinit -kt KEYTAB PRINCIPAL' gets it, and the "
            "file of --config names no keytab, ticketCache or principal then",
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
        raise CliError(f"the broker does not take {security.mechanism}; it offers {', '.join(answer.mechanisms) or 'nothing'}")

    def ask(token: bytes) -> bytes:
        told = client.call(SaslAuthenticateRequest(token))
        if told.error_code:
            who = security.username or "whose ticket this is"
            raise CliError(f"the broker does not let {who} in: {told.error_message or ErrorCode(told.error_code).name}")
        return bytes(told.auth_bytes)

    try:
        send_all(security.tokens(host), ask)
    except NotTrusted as error:
        why = "the broker is not to be trusted" if security.kerberos is None else "no ticket of Kerberos does it"
        raise CliError(f"{why}: {error}") from None

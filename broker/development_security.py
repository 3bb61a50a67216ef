"""Development security: generated TLS certificates, users with passwords, and the client settings to connect with them.

It is for brokers that are tried out or tested. The generated configuration consists of Kafka settings; settings that the user sets
explicitly override it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.net.listeners import listeners_of
from ottla.broker.security.client_properties import ClientConnection, as_lines, client_properties, login_module
from ottla.broker.security.scram import SCRAM_KINDS

LISTENER: Final = "SECURE"
MECHANISMS: Final = ("PLAIN", *SCRAM_KINDS)
NODE_USER: Final = "ottla-node"
"""The SASL user as which brokers and controllers of a development cluster authenticate to each other."""
_OF_NODES: Final = "SCRAM-SHA-256"


@dataclass(frozen=True, slots=True)
class DevelopmentSecurity:
    """Generated security for a development broker or cluster. `ca` is the PEM file of the certificate authority that clients must trust,
    None without TLS. `users` are passwords by user name."""

    ca: Path | None
    users: Mapping[str, str]
    settings: Mapping[str, str]
    """Kafka settings that secure the listener named LISTENER. They do not contain the listener's address, which the caller adds."""

    def connection(self, bootstrap: str, user: str | None = None, mechanism: str = "SCRAM-SHA-256") -> ClientConnection:
        """Return the client settings of `user` (None: the first user; without users, no authentication). Raises ValueError for an unknown
        user or SASL mechanism."""
        if user is None:
            user = next(iter(self.users), None)
        elif user not in self.users:
            raise ValueError(f"unknown user {user!r}; known users: {', '.join(self.users) or 'none'}")
        if user is not None and mechanism not in MECHANISMS:
            raise ValueError(f"unknown SASL mechanism {mechanism!r}; use one of {', '.join(MECHANISMS)}")
        password = "" if user is None else self.users[user]
        return ClientConnection(bootstrap, None if self.ca is None else str(self.ca), user, password, mechanism)

    def super_users(self, given: str) -> str:
        """Return a value for super.users: `given`, the configured value, and NODE_USER if the nodes authenticate as this user, because the
        nodes' own requests must always be authorized."""
        return ";".join(filter(None, [given, f"User:{NODE_USER}" if NODE_USER in self.users else ""]))

    def users_at(self, settings: BrokerSettings) -> Mapping[str, str]:
        """Return the users, with passwords, that can authenticate at a node with these settings. A controller accepts only NODE_USER. In
        Kafka, too, a controller knows the clients' users only if its listener's settings name them."""
        if settings.is_controller:
            return {name: password for name, password in self.users.items() if name == NODE_USER}
        return self.users

    def client_configuration(self, bootstrap: str) -> str:
        """Return text for the user to copy: client settings for this bootstrap server, with the generated certificates and users."""
        connection = self.connection(bootstrap)
        blocks = [("Java", "java"), ("librdkafka (confluent-kafka, node-rdkafka, …)", "librdkafka")]
        text = "".join(f"\n# {title}\n" + "\n".join(as_lines(client_properties(kind, connection))) + "\n" for title, kind in blocks)
        return (
            text + "\n# Python: kafka-python, aiokafka\n" + "\n".join(_python_lines(client_properties("aiokafka", connection), connection))
        )


def make_development_security(
    data_dir: Path, now_ms: int, *, tls: bool, users: Mapping[str, str], hosts: Sequence[str] = ()
) -> DevelopmentSecurity:
    """Generate certificates (with `tls`) and the settings of a secured listener for a broker with this data directory. `users` are
    passwords by name, `hosts` further host names for the certificate, which is stored in a directory beside `data_dir`. Raises OSError if a
    certificate cannot be stored."""
    settings: dict[str, str] = {}
    ca = None
    if tls:
        from ottla.broker.security.generated_tls import generated_tls  # noqa: PLC0415 # only TLS needs it

        names = dict.fromkeys(["localhost", socket.gethostname(), "127.0.0.1", "::1", *hosts])
        files = generated_tls(tls_dir(data_dir), [name for name in names if name], now_ms)
        ca = files.ca.absolute()
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(files.server.absolute())}
    if users:
        settings["sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
    protocol = ClientConnection("", None if ca is None else str(ca), next(iter(users), None)).protocol
    settings["listener.security.protocol.map"] = f"{LISTENER}:{protocol}"
    return DevelopmentSecurity(ca, users, settings)


def cluster_security(security: DevelopmentSecurity, controllers: str, password: str) -> DevelopmentSecurity:
    """Return `security` with the settings that the nodes of a cluster need to connect to each other: to brokers at the listener LISTENER,
    and to controllers at the listener named `controllers`. If there are users, the nodes authenticate as the user NODE_USER, by default
    with `password`."""
    protocol = security.connection("").protocol
    settings = {
        **security.settings,
        "listener.security.protocol.map": f"{LISTENER}:{protocol},{controllers}:{protocol}",
        "inter.broker.listener.name": LISTENER,
    }
    if security.ca is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(security.ca)}
    if not security.users:
        return DevelopmentSecurity(security.ca, security.users, settings)
    password = security.users.get(NODE_USER, password)
    for name in (LISTENER, controllers):
        settings[f"listener.name.{name.lower()}.{_OF_NODES.lower()}.sasl.jaas.config"] = login_module(_OF_NODES, NODE_USER, password)
    settings |= dict.fromkeys(("sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol"), _OF_NODES)
    return DevelopmentSecurity(security.ca, {**security.users, NODE_USER: password}, settings)


def check_secured(settings: BrokerSettings, *, tls: bool) -> None:
    """Raise SettingsError unless the requested security is in force: if there are users, some listener must use SASL; with `tls`, some
    listener must use TLS."""
    protocols = [at.protocol for at in listeners_of(settings)]
    given = f"listener.security.protocol.map={settings.listener_security_protocol_map}"
    if protocols and settings.users and not any(protocol.uses_sasl for protocol in protocols):
        raise SettingsError(f"{given}: users are given (--user, OTTLA_USERS), but no listener authenticates clients with SASL")
    if protocols and tls and not any(protocol.uses_tls for protocol in protocols):
        raise SettingsError(f"{given}: --tls is given, but no listener uses TLS")


def tls_dir(data_dir: Path) -> Path:
    """Return the directory of the generated certificates of a broker with this data directory. It is beside the data directory, because
    every directory inside that one is taken for a partition's."""
    return data_dir.with_name(f"{data_dir.name}.tls")


def _python_lines(found: Mapping[str, Any], connection: ClientConnection) -> list[str]:
    shown = {name: repr(value) for name, value in found.items()}
    if connection.ca is not None:
        shown["ssl_context"] = f"ssl.create_default_context(cafile={connection.ca!r})"
    return [f"{name}={value}," for name, value in shown.items()]

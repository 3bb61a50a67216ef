"""A lock without ceremony: TLS with certificates of its own, users by name and password, and what clients need to come in.

For brokers that are tried out or tested. The settings that it makes are Kafka's, and win over none that were given.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.core.settings_load import SettingsError
from ottla.broker.net.listeners import listeners_of
from ottla.broker.security.client_properties import ClientConnection, as_lines, client_properties, login_module
from ottla.broker.security.scram import SCRAM_KINDS

if TYPE_CHECKING:
    from ottla.broker.core.settings import BrokerSettings

LISTENER: Final = "SECURE"
MECHANISMS: Final = ("PLAIN", *SCRAM_KINDS)
NODE_USER: Final = "ottla-node"
"""By this name nodes of one process log in to each other."""
_OF_NODES: Final = "SCRAM-SHA-256"


@dataclass(frozen=True, slots=True)
class DevelopmentSecurity:
    """`ca` is the PEM file that clients trust, where there is TLS; `users` are passwords by name."""

    ca: Path | None
    users: Mapping[str, str]
    settings: Mapping[str, str]
    """Kafka's, without the address of the listener LISTENER."""

    def connection(self, bootstrap: str, user: str | None = None, mechanism: str = "SCRAM-SHA-256") -> ClientConnection:
        """For one of the users, by default the first. Raises ValueError for one that is not known, and for a mechanism that is not."""
        if user is None:
            user = next(iter(self.users), None)
        elif user not in self.users:
            raise ValueError(f"there is no user {user!r}: {', '.join(self.users) or 'nobody'} logs in here")
        if user is not None and mechanism not in MECHANISMS:
            raise ValueError(f"nobody logs in by {mechanism!r} here: one of {', '.join(MECHANISMS)}")
        password = "" if user is None else self.users[user]
        return ClientConnection(bootstrap, None if self.ca is None else str(self.ca), user, password, mechanism)

    def super_users(self, given: str) -> str:
        """Those that are given, and the nodes of a cluster, which need to do everything."""
        return ";".join(filter(None, [given, f"User:{NODE_USER}" if NODE_USER in self.users else ""]))

    def users_at(self, settings: BrokerSettings) -> Mapping[str, str]:
        """Return the users, with passwords, that log in at a node. A controller serves nodes alone: Kafka's does not serve clients' users
        unless its own listener names them."""
        if settings.is_controller:
            return {name: password for name, password in self.users.items() if name == NODE_USER}
        return self.users

    def told(self, bootstrap: str) -> str:
        """What is to be put into the configuration of clients."""
        connection = self.connection(bootstrap)
        blocks = [("Java", "java"), ("librdkafka (confluent-kafka, node-rdkafka, …)", "librdkafka")]
        text = "".join(f"\n# {title}\n" + "\n".join(as_lines(client_properties(kind, connection))) + "\n" for title, kind in blocks)
        return (
            text + "\n# Python: kafka-python, aiokafka\n" + "\n".join(_python_lines(client_properties("aiokafka", connection), connection))
        )


def make_development_security(
    data_dir: Path, now_ms: int, *, tls: bool, users: Mapping[str, str], hosts: Sequence[str] = ()
) -> DevelopmentSecurity:
    """The lock of a broker over `data_dir`, whose certificates lie beside that. Raises OSError."""
    settings: dict[str, str] = {}
    ca = None
    if tls:
        from ottla.broker.security.own_tls import own_tls  # noqa: PLC0415 # only where there is TLS

        names = dict.fromkeys(["localhost", socket.gethostname(), "127.0.0.1", "::1", *hosts])
        files = own_tls(tls_dir(data_dir), [name for name in names if name], now_ms)
        ca = files.ca.absolute()
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(files.server.absolute())}
    if users:
        settings["sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
    protocol = ClientConnection("", None if ca is None else str(ca), next(iter(users), None)).protocol
    settings["listener.security.protocol.map"] = f"{LISTENER}:{protocol}"
    return DevelopmentSecurity(ca, users, settings)


def cluster_security(security: DevelopmentSecurity, controllers: str, password: str) -> DevelopmentSecurity:
    """The same for nodes that come in at each other by the listener LISTENER, and at that of `controllers`; by `password`, where users log
    in."""
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
    """A lock that was asked for has to hold: users log in at some listener of a broker's, and with `tls` one encrypts. Raises
    SettingsError."""
    protocols = [at.protocol for at in listeners_of(settings)]
    given = f"listener.security.protocol.map={settings.listener_security_protocol_map}"
    if protocols and settings.users and not any(protocol.uses_sasl for protocol in protocols):
        raise SettingsError(f"{given}: users are given (--user, OTTLA_USERS), and at no listener anybody logs in")
    if protocols and tls and not any(protocol.uses_tls for protocol in protocols):
        raise SettingsError(f"{given}: --tls is given, and no listener encrypts")


def tls_dir(data_dir: Path) -> Path:
    """Where the certificates of a broker over `data_dir` lie: beside it, for in it every directory is a partition's."""
    return data_dir.with_name(f"{data_dir.name}.tls")


def _python_lines(found: Mapping[str, Any], connection: ClientConnection) -> list[str]:
    shown = {name: repr(value) for name, value in found.items()}
    if connection.ca is not None:
        shown["ssl_context"] = f"ssl.create_default_context(cafile={connection.ca!r})"
    return [f"{name}={value}," for name, value in shown.items()]

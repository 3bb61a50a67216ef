"""Nodes that log in to each other: their settings, and ways in that are made of them."""

from __future__ import annotations

from random import Random

from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import load
from ottla.broker.net.client_security import ClientSecurity, DialingNode, client_security
from ottla.broker.net.listeners import of_brokers
from tests.support.logins import MODULES

USER, PASSWORD, SCRAM_PASSWORD = "node", "pass word", "of scram"
MECHANISMS = ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER")


def jaas(module: str, options: str) -> str:
    return f"{MODULES}.{module} required {options};"


def log_ins(listener: str) -> dict[str, str]:
    """At this listener a node serves others, and comes in at theirs."""
    prefix = f"listener.name.{listener.lower()}"
    plain = f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}"'
    scram = f'username="{USER}" password="{SCRAM_PASSWORD}"'
    return {
        f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": jaas("plain.PlainLoginModule", plain),
        f"{prefix}.scram-sha-512.sasl.jaas.config": jaas("scram.ScramLoginModule", scram),
        f"{prefix}.oauthbearer.sasl.jaas.config": jaas("oauthbearer.OAuthBearerLoginModule", f'unsecuredLoginStringClaim_sub="{USER}"'),
    }


def member(listener: str, protocol: str, mechanism: str = "PLAIN", **others: str | dict[str, str]) -> BrokerSettings:
    """A broker of a cluster whose brokers dial each other at this listener, with the settings `others` (a dict: as it is)."""
    given = {
        "process.roles": "broker",
        "node.id": "7",
        "controller.quorum.bootstrap.servers": "h:1",
        "controller.listener.names": "C",
        "listeners": f"{listener}://h:1",
        "inter.broker.listener.name": listener,
        "listener.security.protocol.map": f"{listener}:{protocol},C:PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        **log_ins(listener),
    }
    for name, value in others.items():
        given |= value if isinstance(value, dict) else {name.replace("_", "."): value}
    return load(given, {}, None).settings


def way(listener: str, protocol: str, mechanism: str = "PLAIN", now_ms: int = 0, **others: str | dict[str, str]) -> ClientSecurity:
    """In at other brokers' listener of this name, for a `member` with these settings."""
    settings = member(listener, protocol, mechanism, **others)
    return client_security(settings, of_brokers(settings), DialingNode(Random(1).randbytes, lambda: now_ms))

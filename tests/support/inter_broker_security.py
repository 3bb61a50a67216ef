"""Settings of nodes that authenticate to each other, and the inter-broker client security that broker 1 derives from them."""

from __future__ import annotations

from random import Random

from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import load
from ottla.broker.net.client_security import ClientEnvironment, ClientSecurity, client_security
from ottla.broker.net.listeners import of_brokers
from tests.support.logins import MODULES

USER, PASSWORD, SCRAM_PASSWORD = "node", "pass word", "of scram"
MECHANISMS = ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER")


def jaas(module: str, options: str) -> str:
    return f"{MODULES}.{module} required {options};"


def log_ins(listener: str) -> dict[str, str]:
    """Return the settings by which a node authenticates other nodes at its listener, and itself at other nodes' listeners of the same
    name."""
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
    """Return the settings of a cluster broker whose inter-broker listener has this name, protocol and SASL mechanism. `others` are more
    settings: a value by name with `_` in place of dots, or a dict of settings with any names."""
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


def client_security_of(
    listener: str, protocol: str, mechanism: str = "PLAIN", now_ms: int = 0, **others: str | dict[str, str]
) -> ClientSecurity:
    """Return the security with which a broker with these settings (see `member`) connects to other brokers' listener `listener`."""
    settings = member(listener, protocol, mechanism, **others)
    return client_security(settings, of_brokers(settings), ClientEnvironment(Random(1).randbytes, lambda: now_ms))

"""The secured listeners, users and certificates that each kind of broker gets for the security scenarios.

Rules:
- The `PLAINTEXT` listener stays open for `Truth`, which reads the log without a client library; its principal is a super user. All other
  users need ACLs.
- Each scenario creates its own SCRAM users. Users of other mechanisms are fixed in the broker's settings; scenarios give them ACLs.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme

from client_compat.support.brokers import HOST, BrokerProcess, gateway
from client_compat.support.pem import write_key_and_chain
from client_compat.support.ports import free_port

LISTENERS: Mapping[str, str] = {
    "TLS": "SSL",
    "CERTIFIED": "SSL",
    "LOGIN": "SASL_SSL",
    "AGAIN": "SASL_SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
    "BARE": "SASL_PLAINTEXT",
}
"""Listeners with their protocols.

- TLS: without client certificates. CERTIFIED: with required client certificates.
- LOGIN: SASL. AGAIN: SASL with re-authentication (KIP-368).
- EXPIRED: the broker's certificate is expired. ELSEWHERE: it is another host's.
- BARE: SASL without encryption.
"""
OWN_CERTIFICATES: Mapping[str, str] = {"EXPIRED": "expired", "ELSEWHERE": "elsewhere"}
"""The listeners at which the broker has another certificate than the valid one, each with the name of that certificate."""
LIFETIME_MS = 3_000
"""How long a session at the listener AGAIN lasts before the client must authenticate again, in ms (`connections.max.reauth.ms`)."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PLAIN_USER, PLAIN_PASSWORD = "patricia", "plain secret"
CERTIFIED_USER = "ann"
TOKEN_SECONDS = 3_600
_MODULES = "org.apache.kafka.common.security"
_DAY = timedelta(days=1)


@dataclass(slots=True)
class BrokerSecurity:
    """The security of a broker: its secured listeners, its certificates in `directory`, and the matching client settings."""

    directory: Path
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in LISTENERS})
    files: dict[str, Path] = field(default_factory=dict)
    fronts: dict[str, int] = field(default_factory=dict)
    """The port of the gateway in front of each listener, by the listener's name; empty if there are no gateways."""

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        authority, stranger = trustme.CA(), trustme.CA(organization_name="Strangers")
        for name, each in (("ca", authority), ("other-ca", stranger)):
            self.files[name] = self.directory / f"{name}.pem"
            each.cert_pem.write_to_path(self.files[name])
        now = datetime.now(UTC)
        begin, end = now - 2 * _DAY, now - _DAY
        for name, issued in (
            ("server", authority.issue_cert(HOST, "localhost")),
            ("expired", authority.issue_cert(HOST, "localhost", not_before=begin, not_after=end)),
            ("elsewhere", authority.issue_cert("elsewhere.example.org")),
            ("client", authority.issue_cert("ann@example.org", common_name=CERTIFIED_USER)),
            ("expired-client", authority.issue_cert("ann@example.org", common_name=CERTIFIED_USER, not_before=begin, not_after=end)),
            ("stranger", stranger.issue_cert("ann@example.org", common_name=CERTIFIED_USER)),
        ):
            self.files[name] = write_key_and_chain(self.directory / f"{name}.pem", issued)

    def bootstrap(self, listener: str) -> str:
        return f"{HOST}:{self.fronts.get(listener, self.ports[listener])}"

    def settings(self, plain_port: int, controller_port: int | None = None) -> dict[str, str]:
        """Return the broker's settings of listeners, security and users. The `PLAINTEXT` listener is at `plain_port`. A node of Apache
        Kafka also needs `controller_port`, for the listener of its own controller."""
        endpoints = {"PLAINTEXT": plain_port, **self.ports}
        protocols = {"PLAINTEXT": "PLAINTEXT", **LISTENERS}
        if controller_port is not None:
            endpoints["CONTROLLER"], protocols["CONTROLLER"] = controller_port, "PLAINTEXT"
        found = {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in endpoints.items()),
            "advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in endpoints.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/,DEFAULT",
            "listener.name.certified.ssl.client.auth": "required",
            "listener.name.again.connections.max.reauth.ms": str(LIFETIME_MS),
        }
        for name in (each for each, protocol in LISTENERS.items() if protocol.endswith("SSL")):
            found |= self._stores(f"listener.name.{name.lower()}.ssl.", self.files[OWN_CERTIFICATES.get(name, "server")])
        return found | _logins("login", MECHANISMS) | _logins("bare", MECHANISMS) | _logins("again", ("SCRAM-SHA-256",))

    def ottla(self, directory: Path, settings: Mapping[str, str], output: Path | None = None) -> BrokerProcess:
        """Return an Ottla broker, not started, with these listeners and its data in `directory`/data."""
        port, file = free_port(), directory / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in {**settings, **self.settings(port)}.items()))
        argv = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(directory / "data"), "--config", str(file)]
        return BrokerProcess(argv, port, output or directory / "data-broker.log")

    def gateways(self) -> dict[str, BrokerProcess]:
        """Return a gateway (Ottla's proxy in front of a cluster), not started, for each secured listener. The gateway shows the broker's
        certificate to clients. From now on `bootstrap` returns the gateway's address."""
        found = {}
        for name, protocol in LISTENERS.items():
            options = [] if not protocol.endswith("SSL") else self._gateway_options(name)
            made = gateway(f"{HOST}:{self.ports[name]}", self.directory / f"gateway-{name}.log", options=options)
            self.fronts[name] = made.port
            found[name] = made
        return found

    def _gateway_options(self, listener: str) -> list[str]:
        file = self.directory / f"gateway-{listener}.properties"
        to_cluster = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.files["ca"])}
        options = ["--to-config", str(file), "--tls-certificate", str(self.files[OWN_CERTIFICATES.get(listener, "server")])]
        if listener == "CERTIFIED":
            to_cluster |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.files["client"])}
            options += ["--tls-client-ca", str(self.files["ca"])]
        file.write_text("".join(f"{name}={value}\n" for name, value in to_cluster.items()))
        return options

    def _stores(self, prefix: str, key: Path) -> dict[str, str]:
        return {
            f"{prefix}keystore.type": "PEM",
            f"{prefix}keystore.location": str(key),
            f"{prefix}truststore.type": "PEM",
            f"{prefix}truststore.location": str(self.files["ca"]),
        }

    def security(
        self,
        protocol: str,
        *,
        ca: str = "ca",
        certificate: str | None = None,
        mechanism: str | None = None,
        user: str = "",
        password: str = "",
    ) -> dict[str, Any]:
        """Return the security settings of a client, as the argument `security` of client_compat/clients/CONTROL.md.

        `ca` and `certificate` are keys of `files`. For OAUTHBEARER, an unsigned token is created for `user`.
        """
        found: dict[str, Any] = {"protocol": protocol}
        if protocol.endswith("SSL"):
            found["ca"] = str(self.files[ca])
        if certificate is not None:
            found["certificate"] = str(self.files[certificate])
        if mechanism is not None:
            found |= {"mechanism": mechanism, "user": user}
            found |= {"token": unsecured_token(user)} if mechanism == "OAUTHBEARER" else {"password": password}
        return found


def _logins(listener: str, mechanisms: tuple[str, ...]) -> dict[str, str]:
    prefix = f"listener.name.{listener}."
    modules = {
        "PLAIN": f'{_MODULES}.plain.PlainLoginModule required user_{PLAIN_USER}="{PLAIN_PASSWORD}";',
        "OAUTHBEARER": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="kafka";',
    }
    scram = f"{_MODULES}.scram.ScramLoginModule required;"
    jaas = {f"{prefix}{each.lower()}.sasl.jaas.config": modules.get(each, scram) for each in mechanisms}
    return {f"{prefix}sasl.enabled.mechanisms": ",".join(mechanisms), **jaas}


def unsecured_token(user: str, seconds: int = TOKEN_SECONDS) -> str:
    """Return an unsigned JSON Web Token that names `user` and is valid for `seconds` seconds. If `seconds` is negative, the token has
    expired."""
    now = int(time.time())
    claims = {"sub": user, "iat": now + min(0, 2 * seconds), "exp": now + seconds}
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)) + "."

"""Kafka's client properties for TLS and SASL, as Kafka's tools, librdkafka and kafka-python write them.

Rules that hold here: a property about security that is not understood is refused, never passed over; what is about other things (retries,
serializers) is not this reader's. Passwords appear in no text.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PROTOCOLS: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
ALIASES: Final[Mapping[str, str]] = {
    "ssl.ca.location": "ca",
    "ssl.cafile": "ca",
    "ssl.certificate.location": "certificate",
    "ssl.certfile": "certificate",
    "ssl.key.location": "key",
    "ssl.keyfile": "key",
    "ssl.key.password": "key_password",
    "ssl.password": "key_password",
    "ssl.truststore.location": "truststore",
    "ssl.truststore.type": "truststore_type",
    "ssl.keystore.location": "keystore",
    "ssl.keystore.type": "keystore_type",
    "ssl.endpoint.identification.algorithm": "identification",
    "ssl.check.hostname": "check_hostname",
    "enable.ssl.certificate.verification": "verify",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "username",
    "sasl.plain.username": "username",
    "sasl.password": "password",
    "sasl.plain.password": "password",
    "sasl.jaas.config": "jaas",
    "security.protocol": "protocol",
}
"""Names of Java's client, of librdkafka, and of kafka-python (whose underscores are read as dots)."""
SECRETS: Final = frozenset({"key_password", "password", "jaas"})
WITHOUT_EFFECT: Final = frozenset({"ssl.truststore.password", "ssl.keystore.password", "ssl.protocol", "ssl.enabled.protocols"})
"""Of Java's client, with nothing to do here: PEM stores have no password of their own, and TLS negotiates its version."""
_ABOUT_SECURITY: Final = re.compile(r"(enable\.)?(ssl|sasl|security)\.")
_JAAS: Final = re.compile(r'\b(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))')
"""One option: what is in quotes is read at once, so that nothing in a password is taken for another."""
_FALSE: Final = frozenset({"false", "0", "no", ""})


def is_secret(name: str) -> bool:
    """Whether a property's value must not be shown or stand in a URL."""
    return ALIASES.get(dotted(name)) in SECRETS


def dotted(name: str) -> str:
    """A property's name with Kafka's dots."""
    return name.strip().lower().replace("_", ".")


@dataclass(frozen=True, slots=True)
class Security:
    """How a connection is made safe. `mechanism` is empty without SASL; paths are of PEM files."""

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    check_hostname: bool = True
    verify: bool = True
    by_token: bool = False
    """Whether user and password are the id and the HMAC of a delegation token (KIP-48)."""

    @property
    def encrypted(self) -> bool:
        """Whether TLS is spoken."""
        return self.protocol.endswith("SSL")

    def tls(self) -> ssl.SSLContext:
        """The TLS context. Raises OSError (ssl.SSLError among them) on files that cannot be used."""
        context = ssl.create_default_context(cafile=self.ca or None)
        context.check_hostname = self.check_hostname and self.verify
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key or None, self.key_password or None)
        return context


def security_of(properties: Mapping[str, str]) -> Security:
    """What client properties say. Raises ValueError on one that is not understood, and on combinations that cannot work."""
    given: dict[str, str] = {}
    for name, value in properties.items():
        known = ALIASES.get(dotted(name))
        if known is not None:
            given[known] = value.strip()
        elif _ABOUT_SECURITY.match(dotted(name)) and dotted(name) not in WITHOUT_EFFECT:
            raise ValueError(f"{name} is not understood: one of {', '.join(sorted(ALIASES))}")
    protocol = given.get("protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"security.protocol={protocol}: one of {', '.join(sorted(PROTOCOLS))}")
    keystore = _pem(given, "keystore")
    mechanism, username, password, by_token = _credentials(given, protocol)
    return Security(
        protocol,
        mechanism,
        username,
        password,
        ca=given.get("ca") or _pem(given, "truststore"),
        certificate=given.get("certificate") or keystore,
        key=given.get("key") or keystore,
        key_password=given.get("key_password", ""),
        check_hostname=given.get("identification", "https") != "" and given.get("check_hostname", "true").lower() not in _FALSE,
        verify=given.get("verify", "true").lower() not in _FALSE,
        by_token=by_token,
    )


def _credentials(given: Mapping[str, str], protocol: str) -> tuple[str, str, str, bool]:
    """Mechanism, user and password, and whether they are a delegation token's."""
    if not protocol.startswith("SASL"):
        return "", "", "", False
    mechanism = given.get("mechanism", "").upper()
    if mechanism not in MECHANISMS:
        raise ValueError(f"sasl.mechanism={mechanism or '(none)'}: one of {', '.join(sorted(MECHANISMS))}")
    jaas = {name: re.sub(r"\\(.)", r"\1", quoted) or bare for name, quoted, bare in _JAAS.findall(given.get("jaas", ""))}
    by_token = jaas.get("tokenauth", "").lower() == "true"
    if by_token and mechanism == "PLAIN":
        raise ValueError("sasl.jaas.config: tokenauth: a delegation token logs in by SCRAM (sasl.mechanism=SCRAM-SHA-256)")
    username, password = (given.get(name) or jaas.get(name, "") for name in ("username", "password"))
    if not username or not password:
        raise ValueError("SASL needs a user and a password: sasl.jaas.config, or sasl.username and sasl.password")
    return mechanism, username, password, by_token


def _pem(given: Mapping[str, str], store: str) -> str:
    location = given.get(store, "")
    if location and given.get(f"{store}_type", "JKS").upper() != "PEM":
        raise ValueError(
            f"ssl.{store}.location={location}: only PEM files can be read (ssl.{store}.type=PEM); keytool and openssl convert a Java store"
        )
    return location

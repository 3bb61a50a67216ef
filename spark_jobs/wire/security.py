"""Parses Kafka's client properties for TLS and SASL, with the names of Kafka's tools, librdkafka and kafka-python.

Invariants:
- An unknown property about security is rejected, never ignored. Properties about other things (retries, serializers) are ignored.
- Passwords appear in no text.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.protocol.login import NotTrusted, Tokens, tokens_of

PROTOCOLS: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
KERBEROS: Final = "GSSAPI"
MECHANISMS: Final = frozenset({KERBEROS, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
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
    "sasl.kerberos.service.name": "service",
    "sasl.kerberos.keytab": "keytab",
    "sasl.kerberos.principal": "principal",
    "security.protocol": "protocol",
}
"""Property names of the Java client, of librdkafka, and of kafka-python (whose underscores are replaced by dots), each with its setting's
name in this module."""
SECRETS: Final = frozenset({"key_password", "password", "jaas"})
WITHOUT_EFFECT: Final = frozenset(
    {
        *("ssl.truststore.password", "ssl.keystore.password", "ssl.protocol", "ssl.enabled.protocols"),
        *(
            f"sasl.kerberos.{name}"
            for name in ("kinit.cmd", "min.time.before.relogin", "ticket.renew.jitter", "ticket.renew.window.factor")
        ),
    }
)
"""Properties that have no effect here: PEM stores have no password of their own, TLS negotiates its version, and Kerberos tickets are
requested when they are needed."""
_ABOUT_SECURITY: Final = re.compile(r"(enable\.)?(ssl|sasl|security)\.")
_JAAS: Final = re.compile(r'\b(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))')
"""One option of sasl.jaas.config. A quoted value is matched as a whole, so that no part of a password is parsed as another option."""
_FALSE: Final = frozenset({"false", "0", "no", ""})
_SETTINGS_OPTION: Final = "`ottla --config client.properties …`, or OTTLA_CLIENT_CONFIG (docs/security.md)"


def connection_advice(error: BaseException) -> str:
    """Return what the user can do about the security settings of a failed connection; empty if they are not the cause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            "The listener's certificate is not trusted for this host: give its certificate authority (ssl.truststore.type=PEM and "
            f"ssl.truststore.location) with {_SETTINGS_OPTION}, and connect to a host that the certificate names."
        )
    if isinstance(error, ssl.SSLError):
        return "The TLS handshake failed. If the listener does not use TLS, correct security.protocol in the client security settings."
    if type(error) is ConnectionError or isinstance(error, ConnectionResetError):  # connected, but closed without a response
        return f"The listener may require TLS or SASL: give client security settings with {_SETTINGS_OPTION}."
    return ""


def is_secret(name: str) -> bool:
    """Return whether the property's value must not be displayed or be part of a URL."""
    return ALIASES.get(dotted(name)) in SECRETS


def dotted(name: str) -> str:
    """Return the name of a client property with dots, as Kafka spells it: kafka-python's names have underscores instead."""
    return name.strip().lower().replace("_", ".")


@dataclass(frozen=True, slots=True)
class Kerberos:
    """The Kerberos principal and the broker's service name. Tickets come from the key in `keytab`, or from the ticket cache `cache`
    (empty: the user's default cache, filled by kinit)."""

    service: str = "kafka"
    principal: str = ""
    keytab: str = ""
    cache: str = ""


@dataclass(frozen=True, slots=True)
class Security:
    """The security settings of a connection. `mechanism` is empty without SASL; paths are paths of PEM files."""

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
    """True if `username` and `password` are the id and the HMAC of a delegation token (KIP-48)."""
    kerberos: Kerberos | None = None
    """The Kerberos identity and its keys, only for the SASL mechanism GSSAPI; otherwise None."""

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self.protocol.endswith("SSL")

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context. Raises OSError (including ssl.SSLError) if a certificate file cannot be used."""
        context = ssl.create_default_context(cafile=self.ca or None)
        context.check_hostname = self.check_hostname and self.verify
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key or None, self.key_password or None)
        return context

    def tokens(self, host: str) -> Tokens:
        """Return a generator for one SASL authentication at a host: it yields each token to send, and receives the broker's response to it.
        It raises NotTrusted if the broker does not prove its identity or Kerberos fails; this method raises it if the package for GSSAPI is
        missing."""
        kerberos = self.kerberos
        if kerberos is None:
            return tokens_of(self.mechanism, self.username, self.password, os.urandom, by_token=self.by_token)
        try:
            from ottla.protocol.kerberos import Initiator  # noqa: PLC0415 # an optional dependency
        except ImportError as error:
            raise NotTrusted(f"GSSAPI needs python-gssapi, where it is used: pip install 'ottla[gssapi]' ({error})") from error
        keytab, cache = kerberos.keytab or None, kerberos.cache or None
        return Initiator(kerberos.service, kerberos.principal or None, keytab=keytab, cache=cache).tokens(host)


def security_of(properties: Mapping[str, str]) -> Security:
    """Return the security settings in client properties (names of the Java client, librdkafka or kafka-python). Raises ValueError on an
    unknown security property and on combinations that cannot work."""
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
    mechanism = _mechanism(given, protocol)
    jaas = {name: re.sub(r"\\(.)", r"\1", quoted) or bare for name, quoted, bare in _JAAS.findall(given.get("jaas", ""))}
    username, password, by_token = _credentials(given, jaas, mechanism)
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
        kerberos=_kerberos(given, jaas) if mechanism == KERBEROS else None,
    )


def _mechanism(given: Mapping[str, str], protocol: str) -> str:
    if not protocol.startswith("SASL"):
        return ""
    mechanism = given.get("mechanism", "").upper()
    if mechanism not in MECHANISMS:
        raise ValueError(f"sasl.mechanism={mechanism or '(none)'}: one of {', '.join(sorted(MECHANISMS))}")
    return mechanism


def _kerberos(given: Mapping[str, str], jaas: Mapping[str, str]) -> Kerberos:
    """Return the Kerberos settings from client properties and the options of `sasl.jaas.config`. Raises ValueError if they contradict each
    other or are incomplete."""
    in_jaas, service = jaas.get("serviceName"), given.get("service")
    if in_jaas and service and in_jaas != service:
        raise ValueError(f"sasl.kerberos.service.name={service}, but serviceName of sasl.jaas.config is {in_jaas}")
    principal = given.get("principal") or jaas.get("principal", "")
    keytab = given.get("keytab") or (jaas.get("keyTab", "") if _is_true(jaas.get("useKeyTab")) else "")
    by_cache = _is_true(jaas.get("useTicketCache"))
    if "jaas" in given and not keytab and not by_cache:
        raise ValueError("sasl.jaas.config: GSSAPI needs useKeyTab=true with keyTab and principal, or useTicketCache=true")
    if keytab and not principal:
        raise ValueError(f"the keytab {keytab} needs a principal: sasl.kerberos.principal, or principal of sasl.jaas.config")
    return Kerberos(service or in_jaas or "kafka", principal, keytab, jaas.get("ticketCache", "") if by_cache and not keytab else "")


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() == "true"


def _credentials(given: Mapping[str, str], jaas: Mapping[str, str], mechanism: str) -> tuple[str, str, bool]:
    """Return (user, password, whether they are the id and HMAC of a delegation token); empty texts for a mechanism without a password.
    Raises ValueError if one of them is missing, or a delegation token is used with PLAIN."""
    if mechanism in {"", KERBEROS}:
        return "", "", False
    by_token = jaas.get("tokenauth", "").lower() == "true"
    if by_token and mechanism == "PLAIN":
        raise ValueError("sasl.jaas.config: tokenauth: a delegation token logs in by SCRAM (sasl.mechanism=SCRAM-SHA-256)")
    username, password = (given.get(name) or jaas.get(name, "") for name in ("username", "password"))
    if not username or not password:
        raise ValueError("SASL needs a user and a password: sasl.jaas.config, or sasl.username and sasl.password")
    return username, password, by_token


def _pem(given: Mapping[str, str], store: str) -> str:
    location = given.get(store, "")
    if location and given.get(f"{store}_type", "JKS").upper() != "PEM":
        raise ValueError(
            f"ssl.{store}.location={location}: only PEM files can be read (ssl.{store}.type=PEM); keytool and openssl convert a Java store"
        )
    return location

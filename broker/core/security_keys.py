"""Kafka's settings of TLS and SASL: each with its type, default and what may be given. Imported only where somebody gave one.

Rules that hold inside:
- Each may be given for one listener, `listener.name.<name in lower case>.<setting>`, and some for one mechanism of one listener,
  `listener.name.<name>.<mechanism in lower case>.<setting>`; the narrower one wins (`AbstractKafkaConfig.valuesWithPrefixOverride`).
- A class of the user's own cannot be loaded here: it stops the start, for nobody is served by another lock than was asked for.

Source: KAFKA BrokerSecurityConfigs, SslConfigs, SaslConfigs, DynamicBrokerConfig.LISTENER_MECHANISM_CONFIGS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.broker.core.config_keys import ConfigKey, ConfigType, Validator, Value, at_least, one_of, validator

_T = ConfigType
_SECURITY: Final = "org.apache.kafka.common.security"
_OAUTH: Final = f"{_SECURITY}.oauthbearer"
UNSECURED_TOKENS: Final = f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
SECURED_TOKENS: Final = frozenset(f"{_OAUTH}.{package}OAuthBearerValidatorCallbackHandler" for package in ("", "secured."))
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_SERVER_HANDLERS: Final = frozenset(
    {
        UNSECURED_TOKENS,
        *SECURED_TOKENS,
        f"{_SECURITY}.plain.internals.PlainServerCallbackHandler",
        f"{_SECURITY}.scram.internals.ScramServerCallbackHandler",
    }
)
PROTOCOLS: Final = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
STORE_TYPES: Final = ("JKS", "PKCS12", "PEM", "JCEKS")


def _is_kafkas(value: Value) -> bool:
    return not value or (isinstance(value, str) and value.startswith(f"{_SECURITY}."))


def _named(value: Value, names: frozenset[str]) -> bool:
    return not value or value in names


_NO_JAVA: Final = "a class of Java cannot be loaded here"
_KAFKAS_CLASS: Final = validator(_is_kafkas, f"{_NO_JAVA}: allowed is one of Apache Kafka's own")
_SERVER_HANDLER: Final = validator(
    lambda value: _named(value, _SERVER_HANDLERS), f"{_NO_JAVA}: allowed is one of Apache Kafka's own for PLAIN, SCRAM and OAUTHBEARER"
)
_PRINCIPALS: Final = f"{_SECURITY}.authenticator.DefaultKafkaPrincipalBuilder"
_PRINCIPAL_BUILDER: Final = validator(lambda value: value == _PRINCIPALS, f"{_NO_JAVA}: allowed is {_PRINCIPALS}")
_JWT_VALIDATOR: Final = validator(
    lambda value: _named(value, frozenset({f"{_OAUTH}.DefaultJwtValidator", f"{_OAUTH}.BrokerJwtValidator"})),
    f"{_NO_JAVA}: allowed is one of Apache Kafka's own for brokers",
)
_ENGINE: Final = validator(
    lambda value: _named(value, frozenset({f"{_SECURITY}.ssl.DefaultSslEngineFactory"})),
    f"{_NO_JAVA}: allowed is {_SECURITY}.ssl.DefaultSslEngineFactory, or none",
)
_NOBODY: Final = validator(lambda value: not value, f"{_NO_JAVA}: allowed is none")
_TLS_VERSIONS: Final = validator(
    lambda value: isinstance(value, tuple) and bool(value) and set(value) <= set(PROTOCOLS), f"Each must be one of: {', '.join(PROTOCOLS)}"
)


def _key(name: str, kind: ConfigType, default: Value, doc: str, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, validator)


_KEYS: Final = (
    _key("connection.failed.authentication.delay.ms", _T.INT, 100, "How long a failed log-in waits for its answer.", at_least(0)),
    _key("connections.max.reauth.ms", _T.LONG, 0, "A log-in is good for so long (KIP-368); 0: for good."),
    _key("principal.builder.class", _T.CLASS, _PRINCIPALS, "How a connection's principal is made.", _PRINCIPAL_BUILDER),
    _key("security.providers", _T.STRING, None, "Classes of Java.", _NOBODY),
    _key("ssl.client.auth", _T.STRING, "none", "Whether clients show a certificate.", one_of("required", "requested", "none")),
    _key("ssl.principal.mapping.rules", _T.STRING, "DEFAULT", "What becomes of a certificate's name."),
    _key("ssl.allow.dn.changes", _T.BOOLEAN, False, "Whether a new certificate may have another name."),
    _key("ssl.allow.san.changes", _T.BOOLEAN, False, "Whether a new certificate may lack names of the one before."),
    _key("ssl.protocol", _T.STRING, "TLSv1.3", "The newest version of TLS.", one_of(*PROTOCOLS, "TLS")),
    _key("ssl.enabled.protocols", _T.LIST, ("TLSv1.2", "TLSv1.3"), "Versions of TLS.", _TLS_VERSIONS),
    _key("ssl.cipher.suites", _T.LIST, (), "Cipher suites by Java's names; by default OpenSSL's."),
    _key("ssl.keystore.type", _T.STRING, "JKS", "PEM, or a store, whose kind is seen in the file.", one_of(*STORE_TYPES)),
    _key("ssl.keystore.location", _T.STRING, None, "The file with the key and its certificates."),
    _key("ssl.keystore.password", _T.PASSWORD, None, "Its password."),
    _key("ssl.key.password", _T.PASSWORD, None, "The key's own password."),
    _key("ssl.keystore.key", _T.PASSWORD, None, "The key in PEM, in the place of a file."),
    _key("ssl.keystore.certificate.chain", _T.PASSWORD, None, "Its certificates in PEM."),
    _key("ssl.truststore.type", _T.STRING, "JKS", "As ssl.keystore.type.", one_of(*STORE_TYPES)),
    _key("ssl.truststore.location", _T.STRING, None, "The file with the certificates that are trusted."),
    _key("ssl.truststore.password", _T.PASSWORD, None, "Its password; without it its integrity is not checked."),
    _key("ssl.truststore.certificates", _T.PASSWORD, None, "Those certificates in PEM, in the place of a file."),
    _key("ssl.provider", _T.STRING, None, "Of Java; without effect."),
    _key("ssl.keymanager.algorithm", _T.STRING, "SunX509", "Of Java; without effect."),
    _key("ssl.trustmanager.algorithm", _T.STRING, "PKIX", "Of Java; without effect."),
    _key("ssl.secure.random.implementation", _T.STRING, None, "Of Java; without effect."),
    _key("ssl.endpoint.identification.algorithm", _T.STRING, "https", "How a server's name is checked by who dials it."),
    _key("ssl.engine.factory.class", _T.CLASS, None, "A class of Java.", _ENGINE),
    _key("sasl.enabled.mechanisms", _T.LIST, ("GSSAPI",), "How clients may log in."),
    _key("sasl.jaas.config", _T.PASSWORD, None, "Who may log in, as text of JAAS; for one mechanism of one listener."),
    _key("sasl.server.max.receive.size", _T.INT, 524_288, "The largest request of who is not logged in."),
    _key("sasl.server.callback.handler.class", _T.CLASS, None, "Who judges a log-in.", _SERVER_HANDLER),
    _key("sasl.client.callback.handler.class", _T.CLASS, None, "For who dials.", _KAFKAS_CLASS),
    _key("sasl.login.class", _T.CLASS, None, "For who dials.", _KAFKAS_CLASS),
    _key("sasl.login.callback.handler.class", _T.CLASS, None, "For who dials.", _KAFKAS_CLASS),
    _key("sasl.mechanism.inter.broker.protocol", _T.STRING, "GSSAPI", "How brokers log in to each other."),
    _key("sasl.mechanism.controller.protocol", _T.STRING, "GSSAPI", "How brokers log in to controllers."),
    _key("sasl.kerberos.service.name", _T.STRING, None, "For GSSAPI."),
    _key("sasl.kerberos.principal.to.local.rules", _T.LIST, ("DEFAULT",), "For GSSAPI."),
    _key("sasl.oauthbearer.scope.claim.name", _T.STRING, "scope", "The claim of a token that has its scope."),
    _key("sasl.oauthbearer.sub.claim.name", _T.STRING, "sub", "The claim of a token that has its owner's name."),
    _key("sasl.oauthbearer.jwks.endpoint.url", _T.STRING, None, "Where the keys are with which tokens are signed."),
    _key("sasl.oauthbearer.jwks.endpoint.refresh.ms", _T.LONG, 3_600_000, "How often they are fetched."),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", _T.LONG, 100, "Pause after a failure, at first."),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", _T.LONG, 10_000, "Pause after a failure, at most."),
    _key("sasl.oauthbearer.clock.skew.seconds", _T.INT, 30, "How far clocks may be apart."),
    _key("sasl.oauthbearer.expected.audience", _T.LIST, (), "Whom a token must be for: one of these."),
    _key("sasl.oauthbearer.expected.issuer", _T.STRING, None, "Who must have issued a token."),
    _key("sasl.oauthbearer.jwt.validator.class", _T.CLASS, f"{_OAUTH}.DefaultJwtValidator", "Who judges signed tokens.", _JWT_VALIDATOR),
    _key(ALLOWED_URLS, _T.LIST, (), "Where keys may be fetched from; with Kafka a property of the JVM, which KAFKA_OPTS names."),
)
SECURITY_KEYS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _KEYS}

KEPT_WHILE_RUNNING: Final = frozenset(
    {
        "principal.builder.class",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Settings that Kafka stores for a broker while it runs, and that none of its existing listeners obeys, even after a restart
(DynamicBrokerConfig.DynamicSecurityConfigs, DynamicListenerConfig). A listener's own, with its prefix, can be any."""

RELOADABLE: Final = frozenset(
    {
        *(f"ssl.{store}.{name}" for store in ("keystore", "truststore") for name in ("type", "location", "password")),
        *("ssl.key.password", "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"),
    }
)
"""What may change of a listener while it runs (SslConfigs.RECONFIGURABLE_CONFIGS)."""

OF_A_MECHANISM: Final = frozenset(
    {
        *(name for name in SECURITY_KEYS if name.startswith("sasl.oauthbearer.")),
        "sasl.jaas.config",
        "sasl.login.class",
        "sasl.login.callback.handler.class",
        "sasl.server.callback.handler.class",
        "connections.max.reauth.ms",
    }
)
_OF_A_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.+)")


def security_key(name: str) -> ConfigKey | None:
    """The key of a setting of TLS or SASL, for a listener or a mechanism too, under the name as it is given; None for any other."""
    if (key := SECURITY_KEYS.get(name)) is not None:
        return key
    if (match := _OF_A_LISTENER.fullmatch(name)) is None:
        return None
    base = match[1]
    if base not in SECURITY_KEYS:
        _, _, base = base.partition(".")
        if base not in OF_A_MECHANISM:
            return None
    return SECURITY_KEYS[base]._replace(name=name)

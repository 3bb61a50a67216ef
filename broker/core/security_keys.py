"""Kafka's TLS and SASL settings with their types, defaults and allowed values. Imported only if one of them is given.

Invariants:
* A setting may be given for one listener, `listener.name.<name in lower case>.<setting>`, and some for one mechanism of one listener,
  `listener.name.<name>.<mechanism in lower case>.<setting>`. The most specific one wins (`AbstractKafkaConfig.valuesWithPrefixOverride`).
* A user's own Java class cannot be loaded, so it prevents the start: a listener must not run with other security than the configured one.

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
ANY_AUDIENCE: Final = "sasl.oauthbearer.allow.unverified.audience"
ANY_ISSUER: Final = "sasl.oauthbearer.allow.unverified.issuer"
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


_NO_JAVA: Final = "a Java class cannot be loaded here"
_KAFKAS_CLASS: Final = validator(_is_kafkas, f"{_NO_JAVA}: allowed are Apache Kafka's own classes")
_SERVER_HANDLER: Final = validator(
    lambda value: _named(value, _SERVER_HANDLERS), f"{_NO_JAVA}: allowed are Apache Kafka's own classes for PLAIN, SCRAM and OAUTHBEARER"
)
_PRINCIPALS: Final = f"{_SECURITY}.authenticator.DefaultKafkaPrincipalBuilder"
_PRINCIPAL_BUILDER: Final = validator(lambda value: value == _PRINCIPALS, f"{_NO_JAVA}: allowed is {_PRINCIPALS}")
_JWT_VALIDATOR: Final = validator(
    lambda value: _named(value, frozenset({f"{_OAUTH}.DefaultJwtValidator", f"{_OAUTH}.BrokerJwtValidator"})),
    f"{_NO_JAVA}: allowed are Apache Kafka's own classes for brokers",
)
_ENGINE: Final = validator(
    lambda value: _named(value, frozenset({f"{_SECURITY}.ssl.DefaultSslEngineFactory"})),
    f"{_NO_JAVA}: allowed is {_SECURITY}.ssl.DefaultSslEngineFactory or no value",
)
_NOBODY: Final = validator(lambda value: not value, f"{_NO_JAVA}: the value must be empty")
_TLS_VERSIONS: Final = validator(
    lambda value: isinstance(value, tuple) and bool(value) and set(value) <= set(PROTOCOLS), f"Each must be one of: {', '.join(PROTOCOLS)}"
)


def _key(
    name: str, kind: ConfigType, default: Value, doc: str, validator: Validator | None = None, *, has_effect: bool = True
) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, validator, has_effect=has_effect)


_KEYS: Final = (
    _key("connection.failed.authentication.delay.ms", _T.INT, 100, "Delay of the response to a failed authentication.", at_least(0)),
    _key("connections.max.reauth.ms", _T.LONG, 0, "Time after which clients must authenticate again (KIP-368); 0: never."),
    _key("principal.builder.class", _T.CLASS, _PRINCIPALS, "The class that derives a connection's principal.", _PRINCIPAL_BUILDER),
    _key("security.providers", _T.STRING, None, "Java classes; none can be loaded.", _NOBODY),
    _key("ssl.client.auth", _T.STRING, "none", "Whether clients must present a certificate.", one_of("required", "requested", "none")),
    _key("ssl.principal.mapping.rules", _T.STRING, "DEFAULT", "Rules that map a certificate's name to a principal."),
    _key("ssl.allow.dn.changes", _T.BOOLEAN, False, "Whether a new certificate may have another distinguished name."),
    _key("ssl.allow.san.changes", _T.BOOLEAN, False, "Whether a new certificate may lack alternative names of the old one."),
    _key("ssl.protocol", _T.STRING, "TLSv1.3", "The newest TLS version.", one_of(*PROTOCOLS, "TLS")),
    _key("ssl.enabled.protocols", _T.LIST, ("TLSv1.2", "TLSv1.3"), "The TLS versions that are accepted.", _TLS_VERSIONS),
    _key("ssl.cipher.suites", _T.LIST, (), "Cipher suites under Java's names; by default OpenSSL's own."),
    _key("ssl.keystore.type", _T.STRING, "JKS", "PEM or a keystore, whose format is detected from the file.", one_of(*STORE_TYPES)),
    _key("ssl.keystore.location", _T.STRING, None, "The file with the private key and its certificates."),
    _key("ssl.keystore.password", _T.PASSWORD, None, "Password of the keystore."),
    _key("ssl.key.password", _T.PASSWORD, None, "Password of the private key."),
    _key("ssl.keystore.key", _T.PASSWORD, None, "The private key as PEM text, instead of a file."),
    _key("ssl.keystore.certificate.chain", _T.PASSWORD, None, "The private key's certificates as PEM text."),
    _key("ssl.truststore.type", _T.STRING, "JKS", "PEM or a keystore, whose format is detected from the file.", one_of(*STORE_TYPES)),
    _key("ssl.truststore.location", _T.STRING, None, "The file with the trusted certificates."),
    _key("ssl.truststore.password", _T.PASSWORD, None, "Password of the truststore; without it its integrity is not checked."),
    _key("ssl.truststore.certificates", _T.PASSWORD, None, "The trusted certificates as PEM text, instead of a file."),
    _key("ssl.provider", _T.STRING, None, "A Java setting; without effect.", has_effect=False),
    _key("ssl.keymanager.algorithm", _T.STRING, "SunX509", "A Java setting; without effect.", has_effect=False),
    _key("ssl.trustmanager.algorithm", _T.STRING, "PKIX", "A Java setting; without effect.", has_effect=False),
    _key("ssl.secure.random.implementation", _T.STRING, None, "A Java setting; without effect.", has_effect=False),
    _key("ssl.endpoint.identification.algorithm", _T.STRING, "https", "How a client checks the server's host name."),
    _key("ssl.engine.factory.class", _T.CLASS, None, "A Java class; only Kafka's own is allowed.", _ENGINE),
    _key("sasl.enabled.mechanisms", _T.LIST, ("GSSAPI",), "SASL mechanisms that clients may use."),
    _key("sasl.jaas.config", _T.PASSWORD, None, "JAAS configuration of one mechanism of one listener."),
    _key("sasl.server.max.receive.size", _T.INT, 524_288, "The largest request before authentication."),
    _key("sasl.server.callback.handler.class", _T.CLASS, None, "The class that verifies credentials.", _SERVER_HANDLER),
    _key(
        "sasl.client.callback.handler.class",
        _T.CLASS,
        None,
        "A Java class for outgoing connections; only Kafka's own is allowed.",
        _KAFKAS_CLASS,
    ),
    _key("sasl.login.class", _T.CLASS, None, "A Java class for outgoing connections; only Kafka's own is allowed.", _KAFKAS_CLASS),
    _key(
        "sasl.login.callback.handler.class",
        _T.CLASS,
        None,
        "A Java class for outgoing connections; only Kafka's own is allowed.",
        _KAFKAS_CLASS,
    ),
    _key("sasl.mechanism.inter.broker.protocol", _T.STRING, "GSSAPI", "SASL mechanism between brokers."),
    _key("sasl.mechanism.controller.protocol", _T.STRING, "GSSAPI", "SASL mechanism from brokers to controllers."),
    _key("sasl.kerberos.service.name", _T.STRING, None, "The broker's Kerberos service name (GSSAPI)."),
    _key("sasl.kerberos.principal.to.local.rules", _T.LIST, ("DEFAULT",), "Rules that map Kerberos principals to user names (GSSAPI)."),
    _key("sasl.oauthbearer.scope.claim.name", _T.STRING, "scope", "Name of the token claim with the scope."),
    _key("sasl.oauthbearer.sub.claim.name", _T.STRING, "sub", "Name of the token claim with the user name."),
    _key("sasl.oauthbearer.jwks.endpoint.url", _T.STRING, None, "URL or file of the JWKS with the keys that sign tokens."),
    _key("sasl.oauthbearer.jwks.endpoint.refresh.ms", _T.LONG, 3_600_000, "Interval at which the JWKS is fetched again."),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", _T.LONG, 100, "First pause after a failed fetch of the JWKS."),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", _T.LONG, 10_000, "Longest pause after a failed fetch of the JWKS."),
    _key("sasl.oauthbearer.clock.skew.seconds", _T.INT, 30, "Tolerated clock difference between token issuer and broker."),
    _key("sasl.oauthbearer.expected.audience", _T.LIST, (), "Accepted audiences of a token."),
    _key("sasl.oauthbearer.expected.issuer", _T.STRING, None, "Required issuer of a token."),
    _key(ANY_AUDIENCE, _T.BOOLEAN, False, "Like Kafka 4.4: accept tokens of any audience, without an expected one."),
    _key(ANY_ISSUER, _T.BOOLEAN, False, "Like Kafka 4.4: accept tokens of any issuer, without an expected one."),
    _key(
        "sasl.oauthbearer.jwt.validator.class",
        _T.CLASS,
        f"{_OAUTH}.DefaultJwtValidator",
        "The class that validates signed tokens.",
        _JWT_VALIDATOR,
    ),
    _key(ALLOWED_URLS, _T.LIST, (), "URLs from which a JWKS may be fetched; with Kafka a JVM property in KAFKA_OPTS."),
)
SECURITY_KEYS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _KEYS}

SETTABLE_WHILE_RUNNING: Final = frozenset(
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
"""Settings that Kafka stores for a running broker but applies to no existing listener, not even after a restart
(DynamicBrokerConfig.DynamicSecurityConfigs, DynamicListenerConfig). With a listener's prefix, any setting can be stored.
"""

RELOADABLE: Final = frozenset(
    {
        *(f"ssl.{store}.{name}" for store in ("keystore", "truststore") for name in ("type", "location", "password")),
        *("ssl.key.password", "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"),
    }
)
"""Settings of a listener that can be changed while it runs (SslConfigs.RECONFIGURABLE_CONFIGS)."""

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
    """Return the definition (`ConfigKey`) of a TLS or SASL setting, with or without a listener or mechanism prefix; None for any other
    name."""
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

"""The security of each listener, built from the settings at the start. An invalid setting stops the start.

Imported only if a listener is not PLAINTEXT.

Source: KAFKA ChannelBuilders, SaslChannelBuilder, JaasContext.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.api.context import Listener
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.security_keys import SECURED_TOKENS
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.core.timers import Timers
from ottla.broker.security.jaas import JaasError, LoginFile, LoginModule, login_modules
from ottla.broker.security.mechanism import MakeMechanism
from ottla.broker.security.plain import Plain
from ottla.broker.security.sasl import ListenerSasl
from ottla.broker.security.scram import SCRAM_KINDS, Credential, Scram, ScramKind

if TYPE_CHECKING:
    from ottla.broker.security.tls import ListenerTls

logger = logging.getLogger(__name__)

_MODULES: Final = "org.apache.kafka.common.security"
_PLAIN_MODULE: Final = f"{_MODULES}.plain.PlainLoginModule"
_KNOWN_MODULES: Final = frozenset(
    {
        _PLAIN_MODULE,
        f"{_MODULES}.scram.ScramLoginModule",
        f"{_MODULES}.oauthbearer.OAuthBearerLoginModule",
        "com.sun.security.auth.module.Krb5LoginModule",
    }
)
_USER: Final = "user_"
_BEARER: Final = "OAUTHBEARER"
_KERBEROS: Final = "GSSAPI"
_JAAS: Final = "sasl.jaas.config"
_HANDLER: Final = "sasl.server.callback.handler.class"
TOKEN_HANDLER: Final = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_OF_SIGNED_TOKENS: Final = (
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
)
"""The settings of signed tokens, which Kafka ignores unless the handler that validates signed tokens is configured."""

FindCredential = Callable[[ScramKind, str, bool], Credential | None]
"""A function that returns the SCRAM credential of a user, or of the delegation token with this id if its last argument is true."""


@dataclass(frozen=True, slots=True)
class ListenerAuthentication:
    """The security of one listener: its TLS context (None without TLS) and its SASL configuration (None without SASL)."""

    tls: ListenerTls | None
    sasl: ListenerSasl | None


@dataclass(frozen=True, slots=True)
class AuthenticationContext:
    """The parts of a broker (such as clock and random numbers) that the security of its listeners needs."""

    find_credential: FindCredential
    random_bits: Callable[[int], int]
    clock: Clock
    timers: Timers


def listener_authentication(
    settings: BrokerSettings, listeners: Sequence[Listener], around: AuthenticationContext
) -> Mapping[str, ListenerAuthentication]:
    """Return the security (TLS and SASL) of each listener that is not PLAINTEXT, by listener name. Raises SettingsError for an invalid
    setting."""
    login_file = LoginFile(settings.login_file, lambda path: Path(path).read_text(encoding="utf-8"))
    found = {}
    for listener in listeners:
        protocol = listener.protocol
        if not protocol:
            continue
        security = ListenerSecurity(settings, listener.name)
        tls = _listener_tls(listener, security) if protocol.uses_tls else None
        sasl = _listener_sasl(listener, settings, login_file, around) if protocol.uses_sasl else None
        found[listener.name] = ListenerAuthentication(tls, sasl)
    return found


def _listener_tls(listener: Listener, security: ListenerSecurity) -> ListenerTls:
    from ottla.broker.security.stores import read_store  # noqa: PLC0415 # a listener without TLS does not load OpenSSL
    from ottla.broker.security.tls import ListenerTls  # noqa: PLC0415 # loads OpenSSL, too

    client_auth = str(security.value("ssl.client.auth"))
    if listener.protocol.uses_sasl and security.own("ssl.client.auth") is None and client_auth != "none":
        logger.warning(
            "ssl.client.auth=%s applies to SSL listeners only; for %s set listener.name.%s.ssl.client.auth",
            client_auth,
            listener.name,
            listener.name.lower(),
        )
        client_auth = "none"
    try:
        return ListenerTls(security, client_auth, read_store)
    except (ValueError, OSError) as error:
        raise SettingsError(f"listeners: TLS of {listener.name} cannot be configured: {error}") from error


def _listener_sasl(listener: Listener, settings: BrokerSettings, login_file: LoginFile, around: AuthenticationContext) -> ListenerSasl:
    security, max_idle_ms = ListenerSecurity(settings, listener.name), settings.connections_max_idle_ms
    enabled = security.items("sasl.enabled.mechanisms")
    if not enabled:
        raise SettingsError(f"sasl.enabled.mechanisms is empty, but {listener.name} uses {listener.protocol.name}")
    delay_ms = security.number("connection.failed.authentication.delay.ms")
    if 0 <= max_idle_ms <= delay_ms:
        raise SettingsError(
            f"connection.failed.authentication.delay.ms={delay_ms} should always be less than connections.max.idle.ms={max_idle_ms}"
            " to prevent failed authentication responses from timing out"
        )
    mechanisms = {}
    for mechanism in enabled:
        try:
            make = _maker(mechanism, listener, settings, around)
            mechanisms[mechanism] = make(_entries(listener.name, mechanism, settings, security, login_file))
        except SettingsError as error:
            if mechanism != _KERBEROS or security.is_given("sasl.enabled.mechanisms"):
                raise
            raise SettingsError(f"{error} (GSSAPI is Kafka's default: set sasl.enabled.mechanisms)") from error
    general = security.number("connections.max.reauth.ms")
    lifetimes = {each: _number(security.of_mechanism(each, "connections.max.reauth.ms"), general) for each in enabled}
    max_receive_bytes = security.number("sasl.server.max.receive.size")
    if not security.is_given("sasl.server.max.receive.size"):
        max_receive_bytes = limits.LOG_IN_BYTES
    return ListenerSasl(mechanisms, max_receive_bytes, delay_ms, lifetimes)


def _entries(
    listener: str, mechanism: str, settings: BrokerSettings, security: ListenerSecurity, login_file: LoginFile
) -> Sequence[LoginModule]:
    """Return the mechanism's login modules; an empty list if the broker has development users (`settings.users`) instead of a JAAS
    configuration. Raises SettingsError if the JAAS configuration is missing or invalid."""
    if settings.users and settings.login_file is None and security.of_mechanism(mechanism, _JAAS) is None:
        return []
    return login_entries(listener, mechanism, security, login_file)


def _number(given: object, otherwise: int) -> int:
    return given if isinstance(given, int) else otherwise


def login_entries(listener: str, mechanism: str, security: ListenerSecurity, login_file: LoginFile) -> list[LoginModule]:
    """Return the login modules of a mechanism at a listener: the one in its setting sasl.jaas.config, or else those in the JAAS file.
    Raises SettingsError if they are missing or invalid."""
    where = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = security.of_mechanism(mechanism, _JAAS)
    if text is None and security.value(_JAAS) is not None:
        logger.warning("%s without a SASL mechanism's prefix is ignored: set %s", _JAAS, where)
    try:
        entries = login_file.entries(listener) if text is None else login_modules(str(text))
    except (JaasError, OSError) as error:
        raise SettingsError(f"{where}: {error}") from error
    if text is not None and len(entries) != 1:
        raise SettingsError(f"{where}: JAAS config property contains {len(entries)} login modules, should be 1 module")
    for entry in entries:
        if entry.name not in _KNOWN_MODULES:
            raise SettingsError(f"{where}: the class {entry.name} cannot be loaded here: allowed are Apache Kafka's own login modules")
    return entries


def _maker(
    mechanism: str, listener: Listener, settings: BrokerSettings, around: AuthenticationContext
) -> Callable[[Sequence[LoginModule]], MakeMechanism]:
    if mechanism == "PLAIN":
        return lambda entries: partial(Plain, {**_passwords(entries), **settings.users})
    if mechanism == _BEARER:
        return partial(_bearer, listener, ListenerSecurity(settings, listener.name), around)
    if mechanism == _KERBEROS:
        from ottla.broker.net.kerberos_authentication import kerberos  # noqa: PLC0415 # rarely used

        return kerberos(listener.name, ListenerSecurity(settings, listener.name), settings.kerberos_file)
    kind = SCRAM_KINDS.get(mechanism)
    if kind is not None:
        return lambda _: partial(Scram, kind, partial(around.find_credential, kind), around.random_bits)
    raise SettingsError(
        f"sasl.enabled.mechanisms={mechanism} at {listener.name} is not supported: allowed are PLAIN, {', '.join(SCRAM_KINDS)}, {_BEARER}, "
        + _KERBEROS
    )


def _bearer(listener: Listener, security: ListenerSecurity, around: AuthenticationContext, entries: Sequence[LoginModule]) -> MakeMechanism:
    """Return the OAUTHBEARER mechanism of a listener, with a validator of unsigned or of signed tokens. Raises SettingsError for an invalid
    setting, also if there are settings for signed tokens but no handler for them: otherwise the listener would accept unsigned tokens by
    mistake."""
    from ottla.broker.security.oauthbearer import OAuthBearer, UnsecuredTokenValidator  # noqa: PLC0415 # rarely used

    if len(entries) != 1:
        raise SettingsError(f"{listener.name}: Must supply exactly 1 non-null JAAS mechanism configuration (size was {len(entries)})")
    if security.of_mechanism(_BEARER, _HANDLER) in SECURED_TOKENS:
        from ottla.broker.net.oauthbearer_authentication import signed_tokens  # noqa: PLC0415 # rarely used

        return partial(OAuthBearer, signed_tokens(listener.name, security, entries[0].options, around.clock, around.timers).validate)
    if validated := [name for name in _OF_SIGNED_TOKENS if security.value(name) or security.of_mechanism(_BEARER, name)]:
        where = f"listener.name.{listener.name.lower()}.oauthbearer.{_HANDLER}"
        raise SettingsError(f"{', '.join(validated)}: signed tokens are not validated at {listener.name}: set {where} to {TOKEN_HANDLER}")
    try:
        return partial(OAuthBearer, UnsecuredTokenValidator(entries[0].options, around.clock.now_ms).validate)
    except ValueError as error:
        raise SettingsError(f"sasl.jaas.config of {listener.name}: {error}") from error


def _passwords(entries: Sequence[LoginModule]) -> dict[str, str]:
    """Return the users and passwords of PLAIN. If several modules name a user, the first one counts."""
    found: dict[str, str] = {}
    for entry in entries:
        if entry.name == _PLAIN_MODULE:
            for name, value in entry.options.items():
                if name.startswith(_USER):
                    found.setdefault(name.removeprefix(_USER), value)
    return found

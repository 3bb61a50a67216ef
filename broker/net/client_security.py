"""The credentials of a node for the listeners of other nodes, built from the settings at the start. An invalid setting stops the start.

Imported only if the nodes' listeners are not PLAINTEXT.

Invariants:
* A broker connects to other brokers with the settings of its own inter-broker listener, `listener.name.<name>.…`. It connects to
  controllers with the settings of the first listener in controller.listener.names. So a broker uses the same keystore and truststore as a
  server and as a client.
* The user name and password are the login module's options `username` and `password`. No error message contains a part of them.

Source: KAFKA ChannelBuilders.clientChannelBuilder, JaasContext.loadServerContext, SaslClientCallbackHandler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.net.listener_authentication import login_entries
from ottla.broker.net.listeners import InterNodeListener
from ottla.broker.security.jaas import LoginFile, LoginModule
from ottla.broker.security.scram import SCRAM_KINDS
from ottla.protocol.login import Tokens, bearer_tokens, takes_long, tokens_of

if TYPE_CHECKING:
    from ottla.broker.security.tls_client import ClientTls

_BEARER: Final = "OAUTHBEARER"
_KERBEROS: Final = "GSSAPI"
_HANDLERS: Final = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
_UNSECURED: Final = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"


@dataclass(frozen=True, slots=True)
class ClientSasl:
    """A SASL mechanism with the credentials of this node. `tokens(host)` starts an authentication with a node at that host and returns the
    source of the tokens to send. `takes_long` receives the peer's last message (None: before the first token) and returns whether the next
    token must be computed on a thread."""

    mechanism: str
    tokens: Callable[[str], Tokens] = field(repr=False)  # it holds the password
    takes_long: Callable[[bytes | None], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The client security for one listener: `tls` is None without TLS, `sasl` is None without SASL."""

    tls: ClientTls | None
    sasl: ClientSasl | None


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """The broker's random numbers and wall clock (ms), from which its credentials for other nodes are made."""

    random_bytes: Callable[[int], bytes]
    now_ms: Callable[[], int]


def client_security(settings: BrokerSettings, at: InterNodeListener, environment: ClientEnvironment) -> ClientSecurity:
    """Return the client security (TLS and SASL) with which this node connects to the secured listener `at` of other nodes. Raises
    SettingsError for an invalid setting."""
    security = ListenerSecurity(settings, at.name)
    tls = _tls(at, security) if at.protocol.uses_tls else None
    return ClientSecurity(tls, _sasl(settings, at, security, environment) if at.protocol.uses_sasl else None)


def _tls(at: InterNodeListener, security: ListenerSecurity) -> ClientTls:
    from ottla.broker.security.stores import read_store  # noqa: PLC0415 # SASL without TLS does not load OpenSSL
    from ottla.broker.security.tls_client import ClientTls  # noqa: PLC0415 # loads OpenSSL, too

    try:
        return ClientTls(security, read_store)
    except (ValueError, OSError) as error:
        raise SettingsError(f"{at.setting}: TLS for connections to {at.name} cannot be configured: {error}") from error


def _sasl(settings: BrokerSettings, at: InterNodeListener, security: ListenerSecurity, environment: ClientEnvironment) -> ClientSasl:
    mechanism = at.mechanism
    where = f"listener.name.{at.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    if mechanism not in {"PLAIN", *SCRAM_KINDS, _BEARER, _KERBEROS}:
        allowed = f"allowed are PLAIN, {', '.join(SCRAM_KINDS)}, {_BEARER}, {_KERBEROS}"
        raise SettingsError(f"{at.mechanism_setting}={mechanism} is not supported: {allowed}")
    login_file = LoginFile(settings.login_file, lambda path: Path(path).read_text(encoding="utf-8"))
    if mechanism == _KERBEROS:
        return _kerberos(settings, at, security, login_file)
    entries = login_entries(at.name, mechanism, security, login_file)
    if mechanism == _BEARER:
        return ClientSasl(mechanism, _bearer(where, security, entries, environment))
    user, password = _option(entries, "username"), _option(entries, "password")
    if not user or not password:
        raise SettingsError(f"{where} needs username and password, with which this node authenticates at listener {at.name} of other nodes")
    tokens = partial(tokens_of, mechanism, user, password, environment.random_bytes)
    if mechanism not in SCRAM_KINDS:
        return ClientSasl(mechanism, lambda _: tokens())
    return ClientSasl(mechanism, lambda _: tokens(), takes_long=lambda challenge: challenge is not None and takes_long(challenge))


def _kerberos(settings: BrokerSettings, at: InterNodeListener, security: ListenerSecurity, login_file: LoginFile) -> ClientSasl:
    from ottla.broker.net.kerberos_authentication import initiator  # noqa: PLC0415 # rarely used

    try:
        dial = initiator(at.name, security, settings.kerberos_file)
        return ClientSasl(_KERBEROS, dial(login_entries(at.name, _KERBEROS, security, login_file)), takes_long=lambda _: True)
    except SettingsError as error:
        if at.mechanism_setting in settings.security:
            raise
        raise SettingsError(f"{error} (GSSAPI is Kafka's default: set {at.mechanism_setting})") from error


def _option(entries: Sequence[LoginModule], name: str) -> str | None:
    """Return the option `name` from the first of the JAAS login modules `entries` that has it, or None. In Java, all modules contribute to
    one JAAS Subject."""
    return next((entry.options[name] for entry in entries if name in entry.options), None)


def _bearer(
    where: str, security: ListenerSecurity, entries: Sequence[LoginModule], environment: ClientEnvironment
) -> Callable[[str], Tokens]:
    from ottla.broker.security.unsecured_token_issuer import UnsecuredTokenIssuer  # noqa: PLC0415 # rarely used

    for name in _HANDLERS:
        if (given := security.of_mechanism(_BEARER, name) or security.value(name)) not in {None, "", _UNSECURED}:
            raise SettingsError(f"{name}={given} is not supported: a node can authenticate with unsigned tokens of its own only")
    if len(entries) != 1:
        raise SettingsError(f"{where}: Must supply exactly 1 non-null JAAS mechanism configuration (size was {len(entries)})")
    try:
        own = UnsecuredTokenIssuer(entries[0].options, environment.now_ms)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from error
    return lambda _: bearer_tokens(own.issue())

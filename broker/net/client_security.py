"""What a node brings to the listeners of other nodes, made of the settings once, at the start: a mistake there stops it by name.

Imported only where nodes do not speak PLAINTEXT to each other.

Rules that hold inside:
- A broker comes in at others by the settings of its own listener between brokers, `listener.name.<name>.…`, and at controllers by those of
  the first of controller.listener.names: the stores that it serves with are those that it dials with.
- Its name and password are the options `username` and `password` of the login module, of which no text of an error has a part.

Source: KAFKA ChannelBuilders.clientChannelBuilder, JaasContext.loadServerContext, SaslClientCallbackHandler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.net.listener_authentication import login_entries
from ottla.broker.security.jaas import LoginFile, LoginModule
from ottla.broker.security.scram import SCRAM_KINDS
from ottla.protocol.login import Tokens, bearer_tokens, takes_long, tokens_of

if TYPE_CHECKING:
    from ottla.broker.core.settings import BrokerSettings
    from ottla.broker.net.listeners import BetweenNodes
    from ottla.broker.security.tls_client import ClientTls

_BEARER: Final = "OAUTHBEARER"
_KERBEROS: Final = "GSSAPI"
_HANDLERS: Final = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
_UNSECURED: Final = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"


@dataclass(frozen=True, slots=True)
class ClientSasl:
    """`tokens(host)` begins a log-in by the mechanism at a host. The token after what was said (None: the first) is waited for on a thread
    where that `takes_long`."""

    mechanism: str
    tokens: Callable[[str], Tokens] = field(repr=False)  # which knows the password
    takes_long: Callable[[bytes | None], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """Of one listener; None for what it does not ask."""

    tls: ClientTls | None
    sasl: ClientSasl | None


@dataclass(frozen=True, slots=True)
class DialingNode:
    """What ways in need of their broker: random numbers, and the wall clock."""

    random_bytes: Callable[[int], bytes]
    now_ms: Callable[[], int]


def client_security(settings: BrokerSettings, at: BetweenNodes, me: DialingNode) -> ClientSecurity:
    """To the listener of others, which is not PLAINTEXT. Raises SettingsError."""
    security = ListenerSecurity(settings, at.name)
    tls = _tls(at, security) if at.protocol.uses_tls else None
    return ClientSecurity(tls, _sasl(settings, at, security, me) if at.protocol.uses_sasl else None)


def _tls(at: BetweenNodes, security: ListenerSecurity) -> ClientTls:
    from ottla.broker.security.tls_client import ClientTls  # noqa: PLC0415 # log-ins without TLS do not pay for OpenSSL

    try:
        return ClientTls(security, lambda path: Path(path).read_bytes())
    except (ValueError, OSError) as error:
        raise SettingsError(f"{at.setting}: {at.name} cannot be dialled with TLS: {error}") from error


def _sasl(settings: BrokerSettings, at: BetweenNodes, security: ListenerSecurity, me: DialingNode) -> ClientSasl:
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
        return ClientSasl(mechanism, _bearer(where, security, entries, me))
    user, password = _option(entries, "username"), _option(entries, "password")
    if not user or not password:
        raise SettingsError(f"{where} needs username and password: by them this node logs in at {at.name} of other nodes")
    tokens = partial(tokens_of, mechanism, user, password, me.random_bytes)
    if mechanism not in SCRAM_KINDS:
        return ClientSasl(mechanism, lambda _: tokens())
    return ClientSasl(mechanism, lambda _: tokens(), takes_long=lambda said: said is not None and takes_long(said))


def _kerberos(settings: BrokerSettings, at: BetweenNodes, security: ListenerSecurity, login_file: LoginFile) -> ClientSasl:
    from ottla.broker.net.kerberos_authentication import initiator  # noqa: PLC0415 # few ask for it

    try:
        dial = initiator(at.name, security, settings.kerberos_file)
        return ClientSasl(_KERBEROS, dial(login_entries(at.name, _KERBEROS, security, login_file)), takes_long=lambda _: True)
    except SettingsError as error:
        if at.mechanism_setting in settings.secured:
            raise
        raise SettingsError(f"{error} (GSSAPI is Kafka's default: set {at.mechanism_setting})") from error


def _option(entries: Sequence[LoginModule], name: str) -> str | None:
    """That of the first module which has it, as each puts its own into the one subject."""
    return next((entry.options[name] for entry in entries if name in entry.options), None)


def _bearer(where: str, security: ListenerSecurity, entries: Sequence[LoginModule], me: DialingNode) -> Callable[[str], Tokens]:
    from ottla.broker.security.own_tokens import OwnTokens  # noqa: PLC0415 # few ask for it

    for name in _HANDLERS:
        if (given := security.of_mechanism(_BEARER, name) or security.value(name)) not in {None, "", _UNSECURED}:
            raise SettingsError(f"{name}={given}: a node brings tokens of its own only, which nobody signed")
    if len(entries) != 1:
        raise SettingsError(f"{where}: Must supply exactly 1 non-null JAAS mechanism configuration (size was {len(entries)})")
    try:
        own = OwnTokens(entries[0].options, me.now_ms)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from error
    return lambda _: bearer_tokens(own.make())

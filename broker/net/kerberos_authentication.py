"""The GSSAPI configuration of a listener, and of connections to other nodes, built from the settings at the start. An invalid
setting stops the start.

Invariant: a broker's key comes from a keytab. A broker contacts no KDC until it connects to another node, so that it starts while no KDC
responds. (Kafka requests a ticket at the start, unless `isInitiator=false`.) Whether a configured keytab has the key is checked without a
KDC.

Source: KAFKA SaslChannelBuilder, KerberosLogin; JDK Krb5LoginModule.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.security.jaas import LoginModule
from ottla.broker.security.kerberos_names import KerberosName, ShortNames
from ottla.broker.security.mechanism import MakeMechanism
from ottla.protocol.login import Tokens

KRB5_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_RULES: Final = "sasl.kerberos.principal.to.local.rules"
_SERVICE: Final = "sasl.kerberos.service.name"

peer_logger = logging.getLogger(PEERS)


def kerberos(listener: str, security: ListenerSecurity, file: str | None) -> Callable[[Sequence[LoginModule]], MakeMechanism]:
    """Return a function that takes a listener's login modules and returns its GSSAPI mechanism. `file` is the path of a krb5.conf (None:
    the default). This function and the returned one raise SettingsError for an invalid configuration."""
    _look_for_library(f"sasl.enabled.mechanisms=GSSAPI at {listener}", file)
    return partial(_log_ins, listener, security)


def initiator(listener: str, security: ListenerSecurity, file: str | None) -> Callable[[Sequence[LoginModule]], Callable[[str], Tokens]]:
    """Return a function that takes a listener's login modules and returns a second function. The second function takes a host, begins a
    GSSAPI authentication with the node there, and returns the source of the tokens to send. `file` is the path of a krb5.conf (None: the
    default). `initiator` and the first function raise SettingsError for an invalid configuration."""
    _look_for_library(f"GSSAPI between nodes, at {listener},", file)
    return partial(_log_ins_elsewhere, listener, security)


def _look_for_library(who: str, file: str | None) -> None:
    try:
        import ottla.broker.security.kerberos  # noqa: F401, PLC0415 # an optional dependency
    except ImportError as error:
        raise SettingsError(
            f"{who} needs python-gssapi: pip install 'ottla[gssapi]', which needs a C compiler and the Kerberos headers (Debian, "
            f"Ubuntu: libkrb5-dev) ({error})"
        ) from error
    if file is not None:
        os.environ["KRB5_CONFIG"] = file  # the library has no other way to set the file


def _log_ins(listener: str, security: ListenerSecurity, entries: Sequence[LoginModule]) -> MakeMechanism:
    from ottla.broker.security.kerberos import Acceptor, Gssapi, default_realm  # noqa: PLC0415 # an optional dependency
    from ottla.protocol.kerberos import NoKey  # noqa: PLC0415 # an optional dependency

    where = _setting(listener)
    _service(security, entries)
    key = _keytab_entry(where, entries)
    try:
        acceptor = Acceptor(key.principal, key.keytab)
    except NoKey as error:
        raise key.missing(where, error) from error
    try:
        names = ShortNames(security.items(_RULES), default_realm())
    except ValueError as error:
        raise SettingsError(f"{_RULES} at {listener}: {error}") from error
    return partial(Gssapi, acceptor, names, _log_problem)


def _log_ins_elsewhere(listener: str, security: ListenerSecurity, entries: Sequence[LoginModule]) -> Callable[[str], Tokens]:
    from ottla.protocol.kerberos import Initiator, NoKey  # noqa: PLC0415 # an optional dependency

    where = _setting(listener)
    service, key = _service(security, entries), _keytab_entry(where, entries)
    if key.only_accepts:
        raise SettingsError(f"{where} has isInitiator=false, but this node uses it to authenticate at listener {listener} of other nodes")
    machines = f"MEMORY:ottla {key.principal}" if key.keytab is None else None
    dialling = Initiator(service, key.principal, keytab=key.keytab, cache=machines)
    try:
        dialling.check_key()
        return dialling.tokens
    except NoKey as error:
        raise key.missing(where, error) from error


def _setting(listener: str) -> str:
    return f"listener.name.{listener.lower()}.gssapi.sasl.jaas.config"


def _log_problem(text: str) -> None:
    peer_logger.info("%s", shown(text))


def _service(security: ListenerSecurity, entries: Sequence[LoginModule]) -> str:
    """Return the Kerberos service name of other nodes. Raises SettingsError if no name, or two different names, are configured. The name is
    required even of a node that never connects to others, because Kafka does not start without it."""
    of_jaas = next((entry.options["serviceName"] for entry in entries if "serviceName" in entry.options), None)
    of_settings = security.text(_SERVICE)
    if of_jaas and of_settings and of_jaas != of_settings:
        raise SettingsError(
            f"{_SERVICE}: Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file {of_jaas}, value in Kafka "
            f"config {of_settings}"
        )
    found = of_jaas or of_settings
    if not found:
        raise SettingsError(f"{_SERVICE}: No serviceName defined in either JAAS or Kafka config")
    return found


class _KeytabEntry(NamedTuple):
    """The Kerberos principal of a key, and the path of the keytab that contains it (None: the machine's default keytab).
    `only_accepts` is true if isInitiator=false: the key then serves only for accepting clients."""

    principal: str
    keytab: str | None
    only_accepts: bool

    def missing(self, where: str, error: Exception) -> SettingsError:
        file = "the machine's keytab" if self.keytab is None else f"keyTab={self.keytab}"
        return SettingsError(f"{where}: {file} has no usable key of principal={self.principal}: {error}")


def _keytab_entry(where: str, entries: Sequence[LoginModule]) -> _KeytabEntry:
    options: Mapping[str, str] | None = next((entry.options for entry in entries if entry.name == KRB5_MODULE), None)
    if options is None:
        raise SettingsError(f"{where}: GSSAPI needs the login module {KRB5_MODULE}")
    for name in ("useKeyTab", "storeKey"):
        if options.get(name, "").lower() != "true":
            raise SettingsError(f"{where} needs {name}=true: a broker's key must come from a keytab")
    principal = options.get("principal", "")
    try:
        parsed = KerberosName.parse(principal)
    except ValueError as error:
        raise SettingsError(f"{where}: Principal has name with unexpected format {principal}") from error
    if not parsed.service or parsed.service == "*":
        raise SettingsError(f'{where} needs principal="kafka/host@REALM", the owner of the key in the keytab')
    return _KeytabEntry(principal, options.get("keyTab"), options.get("isInitiator", "").lower() == "false")

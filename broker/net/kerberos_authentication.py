"""What a listener of GSSAPI needs, and a node that dials one, made of its settings once, at the start: a mistake there stops it by name.

Rules that hold inside:
- A broker's key comes from a keytab. It asks no KDC for anything until it dials, so that it starts where none answers; Kafka's asks for a
  ticket, unless `isInitiator=false`. Whether a keytab that is named has the key is looked at without one.

Source: KAFKA SaslChannelBuilder, KerberosLogin; JDK Krb5LoginModule.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.security.kerberos_names import KerberosName, ShortNames

if TYPE_CHECKING:
    from ottla.broker.core.listener_security import ListenerSecurity
    from ottla.broker.security.jaas import LoginModule
    from ottla.broker.security.mechanism import MakeMechanism
    from ottla.protocol.login import Tokens

KRB5_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_RULES: Final = "sasl.kerberos.principal.to.local.rules"
_SERVICE: Final = "sasl.kerberos.service.name"

peer_logger = logging.getLogger(PEERS)


def kerberos(listener: str, security: ListenerSecurity, file: str | None) -> Callable[[Sequence[LoginModule]], MakeMechanism]:
    """Makes log-ins at a listener out of its login modules; `file` is a krb5.conf. Both raise SettingsError."""
    _look_for_library(f"sasl.enabled.mechanisms=GSSAPI at {listener}", file)
    return partial(_log_ins, listener, security)


def initiator(listener: str, security: ListenerSecurity, file: str | None) -> Callable[[Sequence[LoginModule]], Callable[[str], Tokens]]:
    """Makes, of the login modules of a listener, the tokens with which a node comes in at those of others. Both raise SettingsError."""
    _look_for_library(f"GSSAPI between nodes, at {listener},", file)
    return partial(_log_ins_elsewhere, listener, security)


def _look_for_library(who: str, file: str | None) -> None:
    try:
        import ottla.broker.security.kerberos  # noqa: F401, PLC0415 # an extra, which few install
    except ImportError as error:
        raise SettingsError(
            f"{who} needs python-gssapi: pip install 'ottla[gssapi]', which wants a C compiler and the headers of Kerberos (Debian, "
            f"Ubuntu: libkrb5-dev) ({error})"
        ) from error
    if file is not None:
        os.environ["KRB5_CONFIG"] = file  # the library is told of it in no other way


def _log_ins(listener: str, security: ListenerSecurity, entries: Sequence[LoginModule]) -> MakeMechanism:
    from ottla.broker.security.kerberos import Acceptor, Gssapi, default_realm  # noqa: PLC0415 # as above
    from ottla.protocol.kerberos import NoKey  # noqa: PLC0415 # as above

    where = _setting(listener)
    _service(security, entries)
    key = _key(where, entries)
    try:
        acceptor = Acceptor(key.principal, key.keytab)
    except NoKey as error:
        raise key.missing(where, error) from error
    try:
        names = ShortNames(security.items(_RULES), default_realm())
    except ValueError as error:
        raise SettingsError(f"{_RULES} at {listener}: {error}") from error
    return partial(Gssapi, acceptor, names, _tell)


def _log_ins_elsewhere(listener: str, security: ListenerSecurity, entries: Sequence[LoginModule]) -> Callable[[str], Tokens]:
    from ottla.protocol.kerberos import Initiator, NoKey  # noqa: PLC0415 # as above

    where = _setting(listener)
    service, key = _service(security, entries), _key(where, entries)
    if key.only_accepts:
        raise SettingsError(f"{where} has isInitiator=false, but by it this node logs in at {listener} of other nodes")
    machines = f"MEMORY:ottla {key.principal}" if key.keytab is None else None
    dialling = Initiator(service, key.principal, keytab=key.keytab, cache=machines)
    try:
        dialling.check_key()
        return dialling.tokens
    except NoKey as error:
        raise key.missing(where, error) from error


def _setting(listener: str) -> str:
    return f"listener.name.{listener.lower()}.gssapi.sasl.jaas.config"


def _tell(text: str) -> None:
    peer_logger.info("%s", shown(text))


def _service(security: ListenerSecurity, entries: Sequence[LoginModule]) -> str:
    """That of the nodes which are dialled. Who dials none has to say it, too: else a Kafka does not start."""
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


class _Key(NamedTuple):
    """Whose it is, and the file that has it; None: the machine's."""

    principal: str
    keytab: str | None
    only_accepts: bool

    def missing(self, where: str, error: Exception) -> SettingsError:
        file = "the machine's keytab" if self.keytab is None else f"keyTab={self.keytab}"
        return SettingsError(f"{where}: no key of principal={self.principal} can be had from {file}: {error}")


def _key(where: str, entries: Sequence[LoginModule]) -> _Key:
    options: Mapping[str, str] | None = next((entry.options for entry in entries if entry.name == KRB5_MODULE), None)
    if options is None:
        raise SettingsError(f"{where}: GSSAPI needs the login module {KRB5_MODULE}")
    for name in ("useKeyTab", "storeKey"):
        if options.get(name, "").lower() != "true":
            raise SettingsError(f"{where} needs {name}=true: a broker's key comes from a keytab")
    principal = options.get("principal", "")
    try:
        parsed = KerberosName.parse(principal)
    except ValueError as error:
        raise SettingsError(f"{where}: Principal has name with unexpected format {principal}") from error
    if not parsed.service or parsed.service == "*":
        raise SettingsError(f'{where} needs principal="kafka/host@REALM": whose key of the keytab it is')
    return _Key(principal, options.get("keyTab"), options.get("isInitiator", "").lower() == "false")

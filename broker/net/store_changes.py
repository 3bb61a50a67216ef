"""Key and trust stores of listeners that change while they run (Kafka's `DynamicBrokerConfig`, `SslFactory`).

Rules that hold inside:
- Settings that name others are looked at before they are taken: a store that cannot be read, or a certificate for somebody else, is
  refused.
- Whatever setting of this broker is written, files that were written since are read again; what then cannot be taken is told in the log,
  and the stores before go on.
- Handshakes from then on have the new ones; nobody who is connected is cut off.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.configs.broker_changes import base_name, is_reloadable
from ottla.broker.core.config_keys import InvalidConfig, Value
from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import lock_key
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import ssl

    from ottla.broker.core.settings import BrokerSettings
    from ottla.broker.net.listener_authentication import ListenerAuthentication
    from ottla.broker.security.tls import ListenerTls, Stores
    from ottla.broker.security.tls_client import ClientTls

logger = logging.getLogger(__name__)


class StoreChanges:
    """Of a broker's listeners, and of its `keys` to those of other nodes, by their names. `wanted` are all settings of this broker that
    were changed while it runs, as texts by full names."""

    def __init__(
        self, settings: BrokerSettings, authentication: Mapping[str, ListenerAuthentication], keys: Mapping[str, ClientTls]
    ) -> None:
        self._settings, self._keys = settings, keys
        self._authentication = {name: at_listener.tls for name, at_listener in authentication.items() if at_listener.tls is not None}

    def check(self, wanted: Mapping[str, str]) -> None:
        """Raises Rejected."""
        over = _typed(wanted)
        for name, tls in self._authentication.items():
            security = ListenerSecurity(self._settings, name, over)
            if not tls.is_of(security):
                try:
                    self._renewed(name, tls, security)
                except (ValueError, OSError) as error:
                    text = f"Invalid dynamic configuration: Validation of dynamic config update of SSLFactory failed: {error}"
                    raise Rejected(ErrorCode.INVALID_REQUEST, text) from error

    def take(self, wanted: Mapping[str, str]) -> None:
        """Puts them in force."""
        over = _typed(wanted)
        for name, tls in self._authentication.items():
            security = ListenerSecurity(self._settings, name, over)
            if tls.is_of(security) and not tls.is_stale():
                continue
            try:
                renewed, key = self._renewed(name, tls, security)
            except (ValueError, OSError) as error:
                logger.error("The stores of listener %s stay as they were: %s", name, error)
            else:
                tls.take(renewed)
                if key is not None:
                    self._keys[name].take(key, security)
                logger.info("Listener %s has the certificate and the trust of its stores as they are now", name)

        for name in self._keys.keys() - self._authentication.keys():
            self._take_key(name, ListenerSecurity(self._settings, name, over))

    def _take_key(self, name: str, security: ListenerSecurity) -> None:
        """To a listener that is other nodes' alone."""
        key = self._keys[name]
        try:
            if not key.is_of(security):
                key.take(key.renewed(security), security)
        except (ValueError, OSError) as error:
            logger.error("The stores for dialling listener %s stay as they were: %s", name, error)

    def _renewed(
        self, name: str, tls: ListenerTls, security: ListenerSecurity
    ) -> tuple[tuple[ssl.SSLContext, Stores], ssl.SSLContext | None]:
        """What is served with, and dialled with where brokers dial each other here: the old and the new come in at each other, so that they
        can be changed broker by broker. Raises ValueError, OSError."""
        renewed = tls.renewed(security)
        if name not in self._keys:
            return renewed, None
        from ottla.broker.security.tls_client import check_handshake  # noqa: PLC0415 # only a cluster's broker has keys

        old, new = self._keys[name].context, self._keys[name].renewed(security)
        check_handshake(old, renewed[0])
        check_handshake(new, tls.context)
        return renewed, new


def _typed(wanted: Mapping[str, str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, text in wanted.items():
        key = lock_key(name) if is_reloadable(base_name(name) or "") else None
        if key is not None:
            try:
                found[name] = key.parse(text)
            except InvalidConfig as error:  # another broker wrote it, with a value that is none here
                logger.warning("ignoring the stored value: %s", error)
    return found

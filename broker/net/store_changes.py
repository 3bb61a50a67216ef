"""Changes of listeners' keystores and truststores at run time (Kafka's `DynamicBrokerConfig`, `SslFactory`).

Invariants:
* New store settings are validated before they are applied: an unreadable store, or a certificate for another name, is rejected.
* Whenever any setting of this broker is changed, modified files are read again. If the new contents cannot be used, the error is logged
  and the previous stores stay in use.
* New handshakes use the new stores; existing connections stay open.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.configs.broker_changes import base_name, is_reloadable
from ottla.broker.core.config_keys import InvalidConfig, Value
from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings, security_setting
from ottla.broker.net.listener_authentication import ListenerAuthentication
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.security.tls import ListenerTls, Stores
    from ottla.broker.security.tls_client import ClientTls, Renewed

logger = logging.getLogger(__name__)


class StoreChanges:
    """Changes the keystores and truststores of a broker's listeners (`authentication`) and of its connections to other nodes (`keys`); both
    are by listener name.

    The argument `wanted` of the methods contains all dynamic settings of this broker, as text, by full name.
    """

    def __init__(
        self, settings: BrokerSettings, authentication: Mapping[str, ListenerAuthentication], keys: Mapping[str, ClientTls]
    ) -> None:
        self._settings, self._keys = settings, keys
        self._authentication = {name: at_listener.tls for name, at_listener in authentication.items() if at_listener.tls is not None}

    def check(self, wanted: Mapping[str, str]) -> None:
        """Validate new keystore and truststore settings without applying them. Raises Rejected(INVALID_REQUEST) if a listener's stores
        cannot be used."""
        over = _typed(wanted)
        for name, tls in self._authentication.items():
            security = ListenerSecurity(self._settings, name, over)
            if not tls.has_stores_of(security):
                try:
                    self._renewed(name, tls, security)
                except (ValueError, OSError) as error:
                    text = f"Invalid dynamic configuration: Validation of dynamic config update of SSLFactory failed: {error}"
                    raise Rejected(ErrorCode.INVALID_REQUEST, text) from error

    def take(self, wanted: Mapping[str, str]) -> None:
        """Apply new keystore and truststore settings, and read modified files again. On an error, log it and keep the previous stores."""
        over = _typed(wanted)
        for name, tls in self._authentication.items():
            security = ListenerSecurity(self._settings, name, over)
            if tls.has_stores_of(security) and not tls.is_stale():
                continue
            try:
                renewed, key = self._renewed(name, tls, security)
            except (ValueError, OSError) as error:
                logger.error("Cannot reload the stores of listener %s; the previous ones stay in use: %s", name, error)
            else:
                tls.take(renewed)
                if key is not None:
                    self._keys[name].take(key)
                logger.info("Reloaded the keystore and truststore of listener %s", name)

        for name in self._keys.keys() - self._authentication.keys():
            self._take_key(name, ListenerSecurity(self._settings, name, over))

    def _take_key(self, name: str, security: ListenerSecurity) -> None:
        """Apply new keystore and truststore settings to this node's connections to a listener that it does not have itself, such as the
        controllers'.
        """
        key = self._keys[name]
        try:
            if not key.has_stores_of(security):
                key.take(key.renewed(security))
        except (ValueError, OSError) as error:
            logger.error("Cannot reload the stores for connections to listener %s; the previous ones stay in use: %s", name, error)

    def _renewed(self, name: str, tls: ListenerTls, security: ListenerSecurity) -> tuple[tuple[ssl.SSLContext, Stores], Renewed | None]:
        """Return the new server context and its stores and, for the inter-broker listener, those of the client (otherwise None). Old and
        new contexts must be able to connect to each other, so that brokers can be changed one by one. Raises ValueError if they are not, or
        a store is invalid, and OSError if a store cannot be read."""
        renewed = tls.renewed(security)
        if name not in self._keys:
            return renewed, None
        from ottla.broker.security.tls_client import check_handshake  # noqa: PLC0415 # only a cluster broker has keys

        old, new = self._keys[name].context, self._keys[name].renewed(security)
        check_handshake(old, renewed[0])
        check_handshake(new[0], tls.context)
        return renewed, new


def _typed(wanted: Mapping[str, str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, text in wanted.items():
        key = security_setting(name) if is_reloadable(base_name(name) or "") else None
        if key is not None:
            try:
                found[name] = key.parse(text)
            except InvalidConfig as error:  # another broker stored a value that is invalid here
                logger.warning("Ignoring an invalid stored value: %s", error)
    return found

"""TLS of the connections that this node opens to other nodes: trusted certificates, host name verification, and the client certificate.

Invariants:
* The server's certificate is always verified against the truststore. Its names are verified against the host name of the connection, except
  if `ssl.endpoint.identification.algorithm` is empty.
* Keystore and truststore are those that this node's settings name for its own listener of the same name, because peers have equal settings.
  When they change at run time, new connections use the new ones.

Source: KAFKA DefaultSslEngineFactory, SslFactory, SslTransportLayer.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.security_keys import RELOADABLE
from ottla.broker.security.pem import StoreError
from ottla.broker.security.stores import Read, key_material, trust_anchors
from ottla.broker.security.tls import HandshakeContext, files_written, restrict, trust, use_certificate

_TURNS: Final = 10
_NO_HANDSHAKE: Final = (
    "A client SSLEngine created with the provided settings can't connect to a server SSLEngine created with those settings"
)
_ALGORITHM: Final = "ssl.endpoint.identification.algorithm"

Renewed = tuple[ssl.SSLContext, list[object]]
"""A TLS context, and its keystore and truststore: the values of their settings, and the modification times of their files."""


class ClientTls:
    """The TLS context with which this node connects to one listener of other nodes. The constructor raises StoreError, OSError or
    ValueError for unusable settings or files."""

    def __init__(self, security: ListenerSecurity, read: Read) -> None:
        self._read = read
        self.context, self._stores = self.renewed(security)

    def has_stores_of(self, security: ListenerSecurity) -> bool:
        """Return whether `security` has the same keystore and truststore settings as the present TLS context, and the files have not
        changed since it was made."""
        return self._stores == _stores(security)

    def renewed(self, security: ListenerSecurity) -> Renewed:
        """Return a new TLS context for changed keystore and truststore settings, with the stores that it is made of; the caller passes both
        to `take`. Raises StoreError, OSError or ValueError for unusable settings or files."""
        stores = _stores(security)  # before the files are read, so that a change during the read is noticed later
        context = restrict(security, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        algorithm = security.text(_ALGORITHM)
        if algorithm is not None and algorithm.lower() != "https":
            raise StoreError(f"{_ALGORITHM}={algorithm} is not supported: allowed are https and an empty value")
        context.check_hostname = algorithm is not None
        context.verify_mode = ssl.CERT_REQUIRED
        trust(context, trust_anchors(security, self._read))
        material = key_material(security, self._read)
        if material is not None:
            use_certificate(context, material)
        return context, stores

    def take(self, renewed: Renewed) -> None:
        """Use the TLS context that the method `renewed` has returned, for every later connection."""
        self.context, self._stores = renewed


def check_handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Check that a client with the TLS context `client` can complete a handshake with a server with the context `server`, as Kafka's
    SslEngineValidator does. The host name is not verified. Raises StoreError if the handshake fails."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    carried = HandshakeContext(ssl.PROTOCOL_TLS_SERVER)
    carried.shared = server
    by_name, client.check_hostname = client.check_hostname, False
    try:
        here, there = client.wrap_bio(to_client, to_server), carried.wrap_bio(to_server, to_client, server_side=True)
        left = [here, there]
        for end in (here, there) * _TURNS:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
                left = [each for each in left if each is not end]
        if left:
            raise StoreError(f"{_NO_HANDSHAKE}: the handshake does not complete")
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", None) or error.reason or error
        raise StoreError(f"{_NO_HANDSHAKE}: {why}") from error
    finally:
        client.check_hostname = by_name


def _stores(security: ListenerSecurity) -> list[object]:
    return [*(security.value(name) for name in sorted(RELOADABLE)), *files_written(security)]

"""TLS of who dials: whom it believes, by which name, and the certificate that it shows where one is asked for.

Rules that hold inside:
- Nobody is believed unseen: the certificate is checked against the truststore, and its names against the host that was dialled, unless
  `ssl.endpoint.identification.algorithm` is set to nothing.
- The stores are those of the listener that is dialled, which a node and its peers share.

Source: KAFKA DefaultSslEngineFactory, SslTransportLayer.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from ottla.broker.security.pem import StoreError
from ottla.broker.security.stores import key_material, trust_anchors
from ottla.broker.security.tls import held_to, show, trust

if TYPE_CHECKING:
    from ottla.broker.core.listener_security import ListenerSecurity
    from ottla.broker.security.stores import Read

_ALGORITHM: Final = "ssl.endpoint.identification.algorithm"


def client_context(security: ListenerSecurity, read: Read) -> ssl.SSLContext:
    """For dialling a listener with these settings. Raises StoreError, OSError, ValueError."""
    context = held_to(security, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    algorithm = security.text(_ALGORITHM)
    if algorithm is not None and algorithm.lower() != "https":
        raise StoreError(f"{_ALGORITHM}={algorithm} is not supported: allowed are https, and nothing")
    context.check_hostname = algorithm is not None
    context.verify_mode = ssl.CERT_REQUIRED
    trust(context, trust_anchors(security, read))
    material = key_material(security, read)
    if material is not None:
        show(context, material)
    return context

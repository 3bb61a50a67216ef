"""TLS between clients and a gateway. A client whose handshake fails gets the TLS alert that says why.

asyncio's TLS drops the alert together with the connection. A client would see a broken connection and retry until its timeout; an alert
makes Java's client raise SslAuthenticationException at once.
"""

from __future__ import annotations

import logging
import ssl
from typing import Any

from ottla.broker.core.peer_log import PEERS, shown

peer_logger = logging.getLogger(PEERS)


class _Handshake(ssl.SSLObject):
    """A TLS handshake that sends its alert before it reports its failure.

    asyncio sends pending output only if the handshake asks for more data. Therefore a handshake that fails with a pending alert first asks
    for more data, and reports the failure at the next call. If there is no next call, the client closes the connection, or the handshake
    times out.
    """

    outgoing: ssl.MemoryBIO
    has_failed = False

    def do_handshake(self) -> None:
        if self.has_failed:
            raise ssl.SSLError("the handshake failed before")
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", None) or error.reason or str(error)
            peer_logger.info("Closing a connection: the TLS handshake failed: %s", shown(reason))
            self.has_failed = True
            if self.outgoing.pending:
                raise ssl.SSLWantReadError from None
            raise


class AlertingContext(ssl.SSLContext):
    """A TLS server context for asyncio whose failed handshakes send an alert to the client. It takes all TLS settings from the context
    `configured`. `alerting` makes it."""

    configured: ssl.SSLContext

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **named: Any) -> ssl.SSLObject:
        made = self.configured.wrap_bio(incoming, outgoing, *args, **named)
        assert isinstance(made, _Handshake)
        made.outgoing = outgoing
        return made


def alerting(configured: ssl.SSLContext) -> AlertingContext:
    """Return a server context with the settings of `configured` that sends an alert when a handshake fails. `configured` is changed: its
    connections become `_Handshake` objects."""
    configured.sslobject_class = _Handshake
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    context.configured = configured
    return context

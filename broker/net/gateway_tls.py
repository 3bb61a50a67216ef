"""The clients' side of a gateway's TLS: a client whose handshake fails gets the alert that says why.

asyncio's TLS drops the alert together with the connection. A client would see a broken connection and try again until its time is up, where
an alert makes Java's client raise SslAuthenticationException at once.
"""

from __future__ import annotations

import logging
import ssl
from typing import Any

from ottla.broker.core.peer_log import PEERS, shown

peer_logger = logging.getLogger(PEERS)


class _Handshake(ssl.SSLObject):
    """A handshake that reports its failure one call later if it has an alert to send, so that its caller sends the alert first. Without a
    later call, the client closes the connection, or the time limit of handshakes does.
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
    """A context for a server of asyncio: the handshakes of the context `configured`, with alerts. `configured` is changed."""

    configured: ssl.SSLContext

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **named: Any) -> ssl.SSLObject:
        made = self.configured.wrap_bio(incoming, outgoing, *args, **named)
        assert isinstance(made, _Handshake)
        made.outgoing = outgoing
        return made


def alerting(configured: ssl.SSLContext) -> AlertingContext:
    """Return a context that makes the handshakes of `configured`, and sends an alert when one fails."""
    configured.sslobject_class = _Handshake
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    context.configured = configured
    return context

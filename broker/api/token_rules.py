"""Who may ask anything about delegation tokens: who proved who it is, and by something better than a token (KIP-48).

Of what came in an Envelope the broker has looked at the connection; the controller knows only its own with that broker, and looks whether a
token was the proof.

Source: KAFKA KafkaApis.allowTokenRequests, ControllerApis.allowTokenRequests.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.api.context import Peer
from ottla.broker.core.principal import ANONYMOUS
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.security_protocol import SecurityProtocol
from ottla.protocol.error_codes import ErrorCode

NO_TIME: Final = -1
"""In the place of times, for whom a request is refused before it is decided upon."""


def check_may_ask(peer: Peer) -> None:
    """Raises Rejected."""
    if peer.by_token or not (peer.is_forwarded or _is_known(peer)):
        raise Rejected(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _is_known(peer: Peer) -> bool:
    protocol = peer.listener.protocol
    if protocol is SecurityProtocol.SSL:
        return peer.principal != ANONYMOUS
    return protocol is not SecurityProtocol.PLAINTEXT

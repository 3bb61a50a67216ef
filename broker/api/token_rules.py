"""The clients that may use delegation token APIs: authenticated ones that did not authenticate with a token (KIP-48).

If a request arrives in an Envelope, the broker that sent the Envelope has checked the client's connection. The controller sees only the
connection of that broker, so it checks only whether the client authenticated with a token.

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
"""The value of the time fields in the response to a request that was rejected before the controller decided it."""


def check_token_requests_allowed(peer: Peer) -> None:
    """Raise Rejected(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED) if the client may not use the delegation token APIs: it is not authenticated, or
    authenticated with a token.
    """
    if peer.token_authenticated or not (peer.is_forwarded or _is_known(peer)):
        raise Rejected(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _is_known(peer: Peer) -> bool:
    protocol = peer.listener.protocol
    if protocol is SecurityProtocol.SSL:
        return peer.principal != ANONYMOUS
    return protocol is not SecurityProtocol.PLAINTEXT

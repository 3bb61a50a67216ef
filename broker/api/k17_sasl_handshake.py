"""SaslHandshake (key 17), versions 0-1: a log-in begins. Here it is out of turn.

Promise: who asks on a connection that is logged in, or where nobody logs in, is told ILLEGAL_SASL_STATE and no mechanism. A log-in itself
is `ottla.broker.security.sasl`.
"""

from __future__ import annotations

from typing import Any

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_ctx: Any, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """The same for all; of a broker and of a controller."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

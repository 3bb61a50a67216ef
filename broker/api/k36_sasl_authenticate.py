"""SaslAuthenticate (key 36), versions 0-2: a token of a log-in. Here it is out of turn.

Promise: who sends one on a connection that is logged in, or where nobody logs in, is told ILLEGAL_SASL_STATE with Kafka's text. A log-in
itself is `ottla.broker.security.sasl`.
"""

from __future__ import annotations

from typing import Any

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(_ctx: Any, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """The same for all; of a broker and of a controller."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslAuthenticate request received after successful authentication"
    )

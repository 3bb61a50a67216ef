"""SaslHandshake (key 17), versions 0-1: rejects requests that do not begin an authentication.

Promise: on a connection that is already authenticated, or needs no authentication, the response is ILLEGAL_SASL_STATE without mechanisms.
All other SaslHandshake requests are handled by `ottla.broker.security.sasl`.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import NodeServices
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

API = Api(SaslHandshakeRequest)


@API.on_both()
def handle(_ctx: Context[NodeServices], _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Reject the SaslHandshake of a client that is already authenticated, or needs no authentication, with ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

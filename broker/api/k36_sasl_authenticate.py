"""SaslAuthenticate (key 36), versions 0-2: rejects requests that do not belong to an authentication.

Promise: on a connection that is already authenticated, or needs no authentication, the response is ILLEGAL_SASL_STATE with Kafka's text.
All other SaslAuthenticate requests are handled by `ottla.broker.security.sasl`.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import NodeServices
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

API = Api(SaslAuthenticateRequest)


@API.on_both()
def handle(_ctx: Context[NodeServices], _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Reject the SaslAuthenticate of a client that is already authenticated, or needs no authentication, with ILLEGAL_SASL_STATE."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslAuthenticate request received after successful authentication"
    )

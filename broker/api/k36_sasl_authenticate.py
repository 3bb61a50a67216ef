"""SaslAuthenticate (key 36), versions 0-2, outside of an authentication.

Promise: on a connection that is already authenticated, or needs no authentication, the response is ILLEGAL_SASL_STATE with Kafka's text.
The authentication itself is in `ottla.broker.security.sasl`.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.api.declaration import Api
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

API = Api(SaslAuthenticateRequest)


@API.on_broker()
@API.on_controller()
def handle(_ctx: Any, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Reject the request. Shared by brokers and controllers."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslAuthenticate request received after successful authentication"
    )

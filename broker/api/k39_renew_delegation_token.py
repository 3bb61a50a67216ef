"""RenewDelegationToken (key 39), versions 1-2: extends a delegation token (KIP-48).

Promise: the owner and the renewers may renew a token, up to its maximum lifetime. A renewal without an error in the response is durable.
Source: KAFKA KafkaApis.handleRenewTokenRequest, DelegationTokenControlManager.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ClusterServices, ControllerServices
from ottla.broker.api.token_expiry import decide_expiry_change, forward_expiry_change
from ottla.broker.controller.delegation_tokens import renew_token
from ottla.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

API = Api(RenewDelegationTokenRequest, forwarded=Forwarded.IN_PART)


@API.on_broker()
async def handle(ctx: Context[ClusterServices], request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Check whether the client may use delegation tokens, and forward the request to the controller. Return the response."""
    return await forward_expiry_change(ctx, request, RenewDelegationTokenResponse)


@API.on_controller()
async def handle_on_controller(ctx: Context[ControllerServices], request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Renew the delegation token. Return its new expiry time when this time is durable, or an error if the client may not renew
    the token."""
    return await decide_expiry_change(ctx, request, renew_token, RenewDelegationTokenResponse)

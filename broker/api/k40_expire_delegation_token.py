"""ExpireDelegationToken (key 40), versions 1-2: sets a delegation token's expiry time, a period from now; a negative period expires the
token at once (KIP-48).

Promise: the owner and the renewers may expire a token. An expired token authenticates no client. A change without an error in the response
is durable.
Source: KAFKA KafkaApis.handleExpireTokenRequest, DelegationTokenControlManager.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ClusterServices, ControllerServices
from ottla.broker.api.token_expiry import decide_expiry_change, forward_expiry_change
from ottla.broker.controller.delegation_tokens import expire_token
from ottla.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

API = Api(ExpireDelegationTokenRequest, forwarded=Forwarded.IN_PART)


@API.on_broker()
async def handle(ctx: Context[ClusterServices], request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Check whether the client may use delegation tokens, and forward the request to the controller. Return the response."""
    return await forward_expiry_change(ctx, request, ExpireDelegationTokenResponse)


@API.on_controller()
async def handle_on_controller(ctx: Context[ControllerServices], request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Set the delegation token's expiry time to now plus the requested period. Return the new expiry time when it is durable, or an error
    if the client may not expire the token."""
    return await decide_expiry_change(ctx, request, expire_token, ExpireDelegationTokenResponse)

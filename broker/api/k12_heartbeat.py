"""Heartbeat (key 12), versions 0-4: keeps a member's session alive.

Promise: REBALANCE_IN_PROGRESS makes the member rejoin, and still renews its session.
"""

from __future__ import annotations

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse

API = Api(HeartbeatRequest)


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: HeartbeatRequest) -> HeartbeatResponse:
    """Renew the session of a classic group's member. The response is REBALANCE_IN_PROGRESS if the member must rejoin the group."""
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error = ctx.services.groups.heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    return HeartbeatResponse(error_code=error)

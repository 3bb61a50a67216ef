"""SyncGroup (key 14), versions 0-5: the group leader distributes assignments, and each member gets its own.

Promises: members wait until the leader's assignment is in the log and then all get their responses; a late member gets the current
assignment. From version 5 on the member must send its protocol type and name, which are checked (KIP-559).
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.classic import SyncRequest
from ottla.broker.groups.results import SyncGroupResult
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse

API = Api(SyncGroupRequest, array_limits={"assignments": 50_000})

PROTOCOL_REQUIRED_SINCE = 5


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: SyncGroupRequest) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Return the member's assignment, or an awaitable of it until the group leader has sent the assignments."""
    if ctx.version >= PROTOCOL_REQUIRED_SINCE and None in {request.protocol_type, request.protocol_name}:
        return _response(SyncGroupResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return _response(SyncGroupResult(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    sync_request = SyncRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={one.member_id: bytes(one.assignment) for one in request.assignments},
    )
    return respond_when_ready(
        lambda: ctx.services.groups.sync(request.group_id, sync_request),
        _response,
        lambda rejected: _response(SyncGroupResult(error=rejected.code)),
    )


def _response(answer: SyncGroupResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )

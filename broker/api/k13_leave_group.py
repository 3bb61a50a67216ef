"""LeaveGroup (key 13), versions 0-5: members leave, so that the group need not wait for their sessions to expire.

Promise: from version 3 on a request may name several members, each with its own error; a static member may be named by its
instance id only.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.classic import LeavingMember
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

API = Api(LeaveGroupRequest, array_limits={"members": 10_000})


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: LeaveGroupRequest) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    """Remove the members that the request names from the group. Return the response when this is durable. The remaining members are
    notified by the responses to their next heartbeats.
    """
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    is_batch = ctx.version >= 3
    leaving = [LeavingMember(m.member_id, m.group_instance_id) for m in request.members] if is_batch else [LeavingMember(request.member_id)]
    return respond_when_ready(
        lambda: ctx.services.groups.leave(request.group_id, leaving),
        lambda errors: _response(leaving, errors) if is_batch else LeaveGroupResponse(error_code=errors[0]),
        lambda rejected: LeaveGroupResponse(error_code=rejected.code),
    )


def _response(leaving: list[LeavingMember], errors: list[ErrorCode]) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        members=[MemberResponse(one.member_id, one.instance_id, error) for one, error in zip(leaving, errors, strict=True)]
    )

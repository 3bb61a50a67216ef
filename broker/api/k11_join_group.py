"""JoinGroup (key 11), versions 0-9: joins a group's next generation.

Promises:
* The response is sent when all known members have joined, or after the rebalance timeout. If group.initial.rebalance.delay.ms is 0, a
  group's first member gets its response at once.
* From version 4 on a new dynamic member first gets its member id (MEMBER_ID_REQUIRED, KIP-394). A static member that rejoins is
  recognized (KIP-345).
* If a client disconnects while its join is pending, its member remains until the join phase ends, and is removed when it does not sync.

Version 0 has no rebalance timeout, so its session timeout is used.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.describable_topics import describable_topics
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.classic_join import JoinRequest
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.results import JoinGroupResult
from ottla.broker.runtime.coordination.group_service import new_member_id
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

API = Api(JoinGroupRequest, array_limits={"protocols": 100})


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: JoinGroupRequest) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Let the client join the group. Return the response at once, or an awaitable of it until the join phase ends."""
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return _response(ctx, JoinGroupResult(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    client_id = ctx.client_id or ""
    id_prefix = client_id if request.group_instance_id is None else request.group_instance_id
    join_request = JoinRequest(
        member_id=request.member_id,
        new_member_id="" if request.member_id else new_member_id(id_prefix, ctx.services.random_bytes),
        instance_id=request.group_instance_id,
        client_id=client_id,
        client_host=f"/{ctx.peer.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if ctx.version >= 1 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(JoinProtocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        require_known_member_id=ctx.version >= 4,
        can_skip_assignment=ctx.version >= 9,
        may_describe=describable_topics(ctx),
    )
    return respond_when_ready(
        lambda: ctx.services.groups.join(request.group_id, join_request),
        lambda answer: _response(ctx, answer),
        lambda rejected: _response(ctx, JoinGroupResult(error=rejected.code, member_id="" if request.group_id else request.member_id)),
    )


def _response(ctx: Context[CoordinationServices], answer: JoinGroupResult) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=(answer.protocol_name or None) if ctx.version >= 7 else answer.protocol_name or "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata) for member in answer.members],
    )

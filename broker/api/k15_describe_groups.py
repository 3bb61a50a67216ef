"""DescribeGroups (key 15), versions 0-6: state and members of classic groups.

Promises: an unknown group, or one of another type, has the state Dead without an error; from version 6 on it is GROUP_ID_NOT_FOUND with a
message (KIP-1043). Subscriptions and protocol are returned only while the group is stable. Authorized operations are returned on request
(version 3). A group that is named twice is described once.
"""

from __future__ import annotations

from ottla.broker.api.access import NOT_REQUESTED, allowed, operations
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource, bits
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.classic import ClassicGroup
from ottla.broker.groups.states import ClassicState
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k15_describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest, DescribeGroupsResponse

_OF_SETTINGS = bits([Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS])

API = Api(DescribeGroupsRequest, splits=(Split("groups", "groups"),))


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe the classic groups that the request names. A group that is unknown or of another type is not an error before version 6, but
    has the state Dead."""
    groups = [_describe(ctx, group_id) for group_id in dict.fromkeys(request.groups)]
    shown = ~0 if ctx.services.settings.release_behaviour.has_group_settings else ~_OF_SETTINGS
    for group in groups:
        known = group.error_code == ErrorCode.NONE and request.include_authorized_operations
        group.authorized_operations = operations(ctx, Resource.GROUP, group.group_id) & shown if known else NOT_REQUESTED
    return DescribeGroupsResponse(groups=groups)


def _describe(ctx: Context[CoordinationServices], group_id: str) -> DescribedGroup:
    if not allowed(ctx, Operation.DESCRIBE, Resource.GROUP, group_id):
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    try:
        group = ctx.services.groups.get(group_id)
    except Rejected as rejected:
        return DescribedGroup(error_code=rejected.code, group_id=group_id)
    if isinstance(group, ClassicGroup):
        return _described(group)
    if ctx.version >= 6:
        message = f"Group {group_id[:1000]} {'not found' if group is None else 'is not a classic group'}."
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, group_id=group_id, group_state=ClassicState.DEAD
        )
    return DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD)


def _described(group: ClassicGroup) -> DescribedGroup:
    protocol = (group.protocol_name or "") if group.state is ClassicState.STABLE else ""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol) if protocol else b"",
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )

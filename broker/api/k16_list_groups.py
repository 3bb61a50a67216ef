"""ListGroups (key 16), versions 0-5: which groups there are.

Promises: groups that only store offsets are listed too, with an empty protocol type. Filters by state (4+, KIP-518) and by type (5+,
KIP-848) ignore case; a name that is no state or type matches nothing. Who may not DESCRIBE the cluster sees the groups that he may.
"""

from __future__ import annotations

from ottla.broker.api.access import allowed_of_cluster, denied
from ottla.broker.api.context import Context
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.protocol.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC = "classic"
CONSUMER = "consumer"


def handle(ctx: Context, request: ListGroupsRequest) -> ListGroupsResponse:
    """Answer at once."""
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    try:
        groups = list(ctx.services.groups.all_groups())
    except Rejected as rejected:
        return ListGroupsResponse(error_code=rejected.code)
    if not allowed_of_cluster(ctx, Operation.DESCRIBE, quietly=True):
        hidden = denied(ctx, Operation.DESCRIBE, Resource.GROUP, (group.group_id for group in groups), quietly=True)
        groups = [group for group in groups if group.group_id not in hidden]
    return ListGroupsResponse(
        groups=[
            ListedGroup(group.group_id, group.protocol_type or "", group.state, type_)
            for group in groups
            for type_ in (CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC,)
            if (not states or group.state.lower() in states) and (not types or type_ in types)
        ]
    )

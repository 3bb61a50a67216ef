"""ListGroups (key 16), versions 0-5: lists groups.

Promises:
- Groups that only store offsets are listed with an empty protocol type.
- The filter by type (version 5, KIP-848) ignores case. The filter by state (version 4, KIP-518) ignores case if the imitated Kafka release
  is 3.8 or later. An unknown state or type matches nothing.
- A client that may not DESCRIBE the cluster sees only the groups that it may describe.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from ottla.broker.api.access import allowed_of_cluster, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.listing import respond_with_list
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.coordinator import Group
from ottla.broker.groups.modern import ModernGroup
from ottla.protocol.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

API = Api(ListGroupsRequest, array_limits={"states_filter": 1_000, "types_filter": 1_000})

CLASSIC = "classic"
JAVA_SPACES = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes. Kafka trims the group states in a filter with it."""


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: ListGroupsRequest) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    """Return the groups that match the request's filters and that the client may describe. While this broker is still loading groups,
    return COORDINATOR_LOAD_IN_PROGRESS instead."""
    folded = str.lower if ctx.services.settings.release_behaviour.has_states_of_any_case else str
    states = {folded(state).strip(JAVA_SPACES) for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    try:
        groups = list(ctx.services.groups.all_groups())
    except Rejected as rejected:
        return ListGroupsResponse(error_code=rejected.code)
    sees_all = allowed_of_cluster(ctx, Operation.DESCRIBE, quietly=True)

    def describe(some: Sequence[Group]) -> list[ListedGroup]:
        hidden = () if sees_all else denied(ctx, Operation.DESCRIBE, Resource.GROUP, (group.group_id for group in some), quietly=True)
        return [
            ListedGroup(group.group_id, group.protocol_type or "", group.state, type_)
            for group in some
            for type_ in (group.PROTOCOL_TYPE if isinstance(group, ModernGroup) else CLASSIC,)
            if group.group_id not in hidden and (not states or folded(group.state) in states) and (not types or type_ in types)
        ]

    return respond_with_list(ctx, groups, describe, lambda entries: ListGroupsResponse(groups=entries))

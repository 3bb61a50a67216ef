"""DeleteGroups (key 42), versions 0-3: deletes groups with their committed offsets, share groups with their delivery states.

Promises: only a group without members can be deleted (NON_EMPTY_GROUP). An unknown group is GROUP_ID_NOT_FOUND. Each group
succeeds or fails by itself; one that is named twice has one result. `error_message` is always null, because in Kafka only plug-ins set it,
which Ottla does not have.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_all_ready, respond_when_ready
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

API = Api(DeleteGroupsRequest, splits=(Split("groups_names", "results", ("",)),))


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: DeleteGroupsRequest) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    """Delete the groups that the request names. Return a response with a result for each group, or an awaitable of it until the deletions
    are durable.
    """

    def one(group_id: str) -> DeletableGroupResult | Awaitable[DeletableGroupResult]:
        if not allowed(ctx, Operation.DELETE, Resource.GROUP, group_id):
            return DeletableGroupResult(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if _is_share_group(ctx, group_id):
            return _delete_share_group(ctx, group_id)
        return respond_when_ready(
            lambda: ctx.services.groups.delete_group(group_id),
            lambda _: DeletableGroupResult(group_id, ErrorCode.NONE),
            lambda rejected: DeletableGroupResult(group_id, rejected.code),
        )

    return respond_when_all_ready(
        [one(group_id) for group_id in dict.fromkeys(request.groups_names)], lambda results: DeleteGroupsResponse(results=results)
    )


def _is_share_group(ctx: Context[CoordinationServices], group_id: str) -> bool:
    try:
        return ctx.services.share.groups.has(group_id)
    except Rejected:  # the deletion is rejected for the same reason
        return False


async def _delete_share_group(ctx: Context[CoordinationServices], group_id: str) -> DeletableGroupResult:
    try:
        await ctx.services.share.groups.delete_group(group_id)
    except Rejected as rejected:
        return DeletableGroupResult(group_id, rejected.code)
    return DeletableGroupResult(group_id, ErrorCode.NONE)

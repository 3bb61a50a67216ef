"""DeleteGroups (key 42), versions 0-2: forget groups and all that they committed.

Promises: only a group without members can be deleted (NON_EMPTY_GROUP); an unknown one is GROUP_ID_NOT_FOUND. Each group succeeds or
fails by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from broker.api.context import Context
from broker.core.rejected import Rejected
from protocol.error_codes import ErrorCode
from protocol.messages.k42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(ctx: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    """Answer when what was deleted is durable."""
    waiting: list[asyncio.Future[None]] = []
    results = []
    for group_id in request.groups_names:
        try:
            deleted = ctx.services.groups.delete_group(group_id)
        except Rejected as rejected:
            results.append(DeletableGroupResult(group_id, rejected.code))
            continue
        results.append(DeletableGroupResult(group_id, ErrorCode.NONE))
        if deleted is not None:
            waiting.append(deleted)
    response = DeleteGroupsResponse(results=results)
    return _after(waiting, response) if waiting else response


async def _after(waiting: list[asyncio.Future[None]], response: DeleteGroupsResponse) -> DeleteGroupsResponse:
    await asyncio.gather(*waiting)
    return response

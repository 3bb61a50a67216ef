"""DeleteShareGroupOffsets (key 92), version 0: deletes the state of whole topics from a share group without members.

Promises:
* The response waits until the share coordinator has deleted the state. A topic without state is UNKNOWN_TOPIC_OR_PARTITION.
* A group with members is NON_EMPTY_GROUP, an unknown one or one of another type GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from ottla.broker.api.access import allowed, denied, rejecting_response
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.share_groups import enabled, text_of
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

API = Api(DeleteShareGroupOffsetsRequest, array_limits={"topics": 10_000})


@API.on_broker()
async def handle(ctx: Context[CoordinationServices], request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    """Delete a share group's state for the topics that the request names; respond when the deletions are durable."""
    if not enabled(ctx):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not allowed(ctx, Operation.DELETE, Resource.GROUP, request.group_id):
        return rejecting_response(ctx.version, request, DeleteShareGroupOffsetsResponse, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID, error_message="The group id is empty.")
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    hidden = denied(ctx, Operation.READ, Resource.TOPIC, names)
    try:
        results, unknown = await ctx.services.share.groups.delete_offsets(request.group_id, [name for name in names if name not in hidden])
    except Rejected as rejected:
        return DeleteShareGroupOffsetsResponse(error_code=rejected.code, error_message=text_of(rejected))
    topics = ctx.services.topics
    responses = [_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.") for name in names if name in hidden]
    for topic_id, failure in results.items():
        found = topics.topic_by_id(topic_id)
        code, message = (ErrorCode.NONE, None) if failure is None else (failure.code, failure.message or None)
        responses.append(DeleteShareGroupOffsetsResponseTopic("" if found is None else found.name, topic_id, code, message))
    for name in unknown:
        text = (
            "This server does not host this topic-partition." if topics.topic(name) is None else "There is no offset information to delete."
        )
        responses.append(_failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
    return DeleteShareGroupOffsetsResponse(responses=responses)


def _failed(name: str, error: ErrorCode, message: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=error, error_message=message)

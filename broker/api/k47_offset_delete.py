"""OffsetDelete (key 47), version 0: deletes committed offsets of a group.

Promises: offsets of topics to which a live consumer of the group subscribes are kept (GROUP_SUBSCRIBED_TO_TOPIC). A group with members
that are not consumers is NON_EMPTY_GROUP. Deleting an offset that does not exist succeeds; unknown partitions are rejected one by one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection

from ottla.broker.api.access import allowed, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.coordinator import Topics
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

API = Api(OffsetDeleteRequest, splits=(Split("topics.partitions", "topics.partitions"),))


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: OffsetDeleteRequest) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """Delete offsets that a group has committed; respond when the deletions are durable."""
    if not allowed(ctx, Operation.DELETE, Resource.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    requested = [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in request.topics]
    hidden = denied(ctx, Operation.READ, Resource.TOPIC, [name for name, _ in requested])
    topics = [each for each in requested if each[0] not in hidden]

    def respond(errors: list[tuple[str, ErrorCode]]) -> OffsetDeleteResponse:
        decided = dict(errors)
        return _response(ctx, requested, [(name, decided.get(name, ErrorCode.NONE)) for name, _ in requested], hidden)

    return respond_when_ready(
        lambda: ctx.services.groups.delete_offsets(request.group_id, topics),
        respond,
        lambda rejected: OffsetDeleteResponse(error_code=rejected.code),
    )


def _response(
    ctx: Context[CoordinationServices], topics: Topics, errors: list[tuple[str, ErrorCode]], hidden: Collection[str]
) -> OffsetDeleteResponse:
    out = []
    for (name, partitions), (_, error) in zip(topics, errors, strict=True):
        if name in hidden:
            refused = [OffsetDeleteResponsePartition(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for index in partitions]
            out.append(OffsetDeleteResponseTopic(name, refused))
            continue
        topic = ctx.services.topics.topic(name)
        known = () if topic is None else topic.partitions
        out.append(
            OffsetDeleteResponseTopic(
                name,
                [
                    OffsetDeleteResponsePartition(index, error if index in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    for index in partitions
                ],
            )
        )
    return OffsetDeleteResponse(topics=out)

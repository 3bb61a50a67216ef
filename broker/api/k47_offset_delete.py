"""OffsetDelete (key 47), version 0: forget some of the offsets that a group committed.

Promises: offsets of topics that a live consumer of the group reads stay (GROUP_SUBSCRIBED_TO_TOPIC). A group with members that are no
consumers is NON_EMPTY_GROUP. Deleting what is not there succeeds; partitions that do not exist are refused one by one.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.context import Context
from ottla.broker.api.deferred import answered
from ottla.broker.groups.coordinator import Topics
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(ctx: Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """Answer when what was deleted is durable."""
    topics = [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in request.topics]
    return answered(
        lambda: ctx.services.groups.delete_offsets(request.group_id, topics),
        lambda errors: _response(ctx, topics, errors),
        lambda rejected: OffsetDeleteResponse(error_code=rejected.code),
    )


def _response(ctx: Context, topics: Topics, errors: list[tuple[str, ErrorCode]]) -> OffsetDeleteResponse:
    out = []
    for (name, partitions), (_, error) in zip(topics, errors, strict=True):
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

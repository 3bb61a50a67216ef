"""OffsetFetch (key 9), versions 1-10: how far a group has read, for these partitions or for all.

Promises: a group or partition without a committed offset is no error: offset -1, leader epoch -1, empty metadata. With `require_stable` an
offset that an open transaction is about to replace is UNSTABLE_OFFSET_COMMIT. Many groups in one request (8+) fail one by one.
From version 10 on topics are named by id (KIP-848): one that is unknown is UNKNOWN_TOPIC_ID in each of its partitions, after all others. An
offset that was committed for an earlier topic of the same name does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from broker.api.context import Context
from broker.api.deferred import when_ready
from broker.core.rejected import Rejected
from broker.groups.coordinator import NO_LEADER_EPOCH, NO_OFFSET, Fetched, Topics
from broker.topics.topic_ids import ZERO_ID
from protocol.error_codes import ErrorCode
from protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

BY_ID_SINCE = 10

Asked = tuple[str, list[OffsetFetchRequestTopics], Fetched | asyncio.Future[Fetched] | ErrorCode]
"""A group, the topics of unknown ids, and what the group answered or will answer."""


def handle(ctx: Context, request: OffsetFetchRequest) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """One group, or from version 8 on many."""
    return _many(ctx, request) if ctx.version >= 8 else _one(ctx, request)


def _one(ctx: Context, request: OffsetFetchRequest) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    topics = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
    try:
        fetched = ctx.services.groups.fetch(request.group_id, topics, require_stable=request.require_stable)
    except Rejected as rejected:
        return _failed(ctx, topics or [], rejected.code)
    return when_ready(fetched, lambda offsets: OffsetFetchResponse(topics=_old_topics(offsets)))


def _failed(ctx: Context, topics: Topics, error: ErrorCode) -> OffsetFetchResponse:
    """Version 1 has no error but those of the partitions."""
    if ctx.version >= 2:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name, [OffsetFetchResponsePartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", error) for index in partitions]
            )
            for name, partitions in topics
        ]
    )


def _old_topics(fetched: Fetched) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name,
            [OffsetFetchResponsePartition(one.partition, one.offset, one.leader_epoch, one.metadata, one.error) for one in offsets],
        )
        for name, offsets in fetched
    ]


def _many(ctx: Context, request: OffsetFetchRequest) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    asked = [_ask(ctx, group, require_stable=request.require_stable) for group in request.groups]
    waiting = [answer for _, _, answer in asked if isinstance(answer, asyncio.Future)]
    return _when_all(ctx, waiting, asked) if waiting else OffsetFetchResponse(groups=[_group(ctx, *one) for one in asked])


def _ask(ctx: Context, group: OffsetFetchRequestGroup, *, require_stable: bool) -> Asked:
    topics, ids, unknown = (None, {}, []) if group.topics is None else _named(ctx, group.topics)
    try:
        answer = ctx.services.groups.fetch(
            group.group_id,
            topics,
            require_stable=require_stable,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            topic_ids=ids,
        )
    except Rejected as rejected:
        return group.group_id, unknown, rejected.code
    return group.group_id, unknown, answer


def _named(ctx: Context, topics: list[OffsetFetchRequestTopics]) -> tuple[Topics, dict[str, bytes], list[OffsetFetchRequestTopics]]:
    """What to ask the group for, the ids of those topics where they were given, and the topics whose id nobody has."""
    if ctx.version < BY_ID_SINCE:
        return [(topic.name, topic.partition_indexes) for topic in topics], {}, []
    known = [(ctx.services.topics.topic_by_id(topic.topic_id), topic) for topic in topics]
    wanted = [(found.name, topic.partition_indexes) for found, topic in known if found is not None]
    ids = {found.name: found.topic_id for found, _ in known if found is not None}
    return wanted, ids, [topic for found, topic in known if found is None]


async def _when_all(ctx: Context, waiting: list[asyncio.Future[Fetched]], asked: list[Asked]) -> OffsetFetchResponse:
    await asyncio.wait(waiting)
    return OffsetFetchResponse(groups=[_group(ctx, *one) for one in asked])


def _group(
    ctx: Context, group_id: str, unknown: list[OffsetFetchRequestTopics], answer: Fetched | asyncio.Future[Fetched] | ErrorCode
) -> OffsetFetchResponseGroup:
    fetched = answer.result() if isinstance(answer, asyncio.Future) else answer
    if isinstance(fetched, ErrorCode):
        return OffsetFetchResponseGroup(group_id, error_code=fetched)
    topics = []
    for name, offsets in fetched:
        found = ctx.services.topics.topic(name)
        if found is None and ctx.version >= BY_ID_SINCE:
            continue  # deleted meanwhile: it has no id by which the answer could name it
        partitions = [
            OffsetFetchResponsePartitions(one.partition, one.offset, one.leader_epoch, one.metadata, one.error) for one in offsets
        ]
        topics.append(OffsetFetchResponseTopics(name, ZERO_ID if found is None else found.topic_id, partitions))
    return OffsetFetchResponseGroup(group_id, topics + [_unknown(topic) for topic in unknown])


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    error = ErrorCode.UNKNOWN_TOPIC_ID
    partitions = [OffsetFetchResponsePartitions(index, NO_OFFSET, NO_LEADER_EPOCH, "", error) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions)

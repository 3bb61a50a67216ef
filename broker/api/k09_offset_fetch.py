"""OffsetFetch (key 9), versions 1-9: how far a group has read, for these partitions or for all.

Promises: a group or partition without a committed offset is no error: offset -1, leader epoch -1, empty metadata. With `require_stable` an
offset that an open transaction is about to replace is UNSTABLE_OFFSET_COMMIT. Many groups in one request (8+) fail one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from broker.api.context import Context
from broker.api.deferred import when_ready
from broker.core.rejected import Rejected
from broker.groups.coordinator import NO_LEADER_EPOCH, NO_OFFSET, Fetched, Topics
from protocol.error_codes import ErrorCode
from protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)


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
    waiting: list[asyncio.Future[Fetched]] = []
    answers: list[tuple[str, Fetched | asyncio.Future[Fetched] | ErrorCode]] = []
    for group in request.groups:
        topics = None if group.topics is None else [(topic.name, topic.partition_indexes) for topic in group.topics]
        try:
            fetched = ctx.services.groups.fetch(
                group.group_id, topics, require_stable=request.require_stable, member_id=group.member_id, member_epoch=group.member_epoch
            )
        except Rejected as rejected:
            answers.append((group.group_id, rejected.code))
            continue
        answers.append((group.group_id, fetched))
        if isinstance(fetched, asyncio.Future):
            waiting.append(fetched)
    return _when_all(waiting, answers) if waiting else OffsetFetchResponse(groups=[_group(*answer) for answer in answers])


async def _when_all(
    waiting: list[asyncio.Future[Fetched]], answers: list[tuple[str, Fetched | asyncio.Future[Fetched] | ErrorCode]]
) -> OffsetFetchResponse:
    await asyncio.wait(waiting)
    return OffsetFetchResponse(groups=[_group(*answer) for answer in answers])


def _group(group_id: str, answer: Fetched | asyncio.Future[Fetched] | ErrorCode) -> OffsetFetchResponseGroup:
    fetched = answer.result() if isinstance(answer, asyncio.Future) else answer
    if isinstance(fetched, ErrorCode):
        return OffsetFetchResponseGroup(group_id, error_code=fetched)
    topics = [
        OffsetFetchResponseTopics(
            name,
            [OffsetFetchResponsePartitions(one.partition, one.offset, one.leader_epoch, one.metadata, one.error) for one in offsets],
        )
        for name, offsets in fetched
    ]
    return OffsetFetchResponseGroup(group_id, topics)

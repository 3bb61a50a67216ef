"""OffsetFetch (key 9), versions 1-10: a group's committed offsets, of given partitions or of all.

Promises:
* A group or partition without a committed offset is not an error: offset -1, leader epoch -1, empty metadata.
* With `require_stable`, an offset with a pending transactional commit is UNSTABLE_OFFSET_COMMIT.
* Each group of a request (version 8) succeeds or fails by itself. If a request asks twice for all offsets of a group, the response has the
  group once.
* From version 10 on topics are named by id (KIP-848). All partitions of an unknown id are UNKNOWN_TOPIC_ID, after all other topics. An
  offset that was committed for an earlier topic of the same name is not returned.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_all_ready, respond_when_ready
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.coordinator import NO_LEADER_EPOCH, NO_OFFSET, Fetched, FetchedOffset, Topics
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchResponseGroup as Group

API = Api(
    OffsetFetchRequest,
    splits=(
        Split("groups.topics.partition_indexes", "groups.topics.partitions"),
        Split("topics.partition_indexes", "topics.partitions"),
    ),
)

BY_ID_SINCE = 10


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: OffsetFetchRequest) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Return the committed offsets of the group that the request names; from version 8 on a request can name several groups."""
    return _many(ctx, request) if ctx.version >= 8 else _one(ctx, request)


def _one(ctx: Context[CoordinationServices], request: OffsetFetchRequest) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    requested = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
    if not allowed(ctx, Operation.DESCRIBE, Resource.GROUP, request.group_id):
        return _failed(ctx, requested or [], ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topics, refused = _visible(ctx, requested)
    return respond_when_ready(
        lambda: ctx.services.groups.fetch(request.group_id, topics, require_stable=request.require_stable),
        lambda fetched: OffsetFetchResponse(topics=_old_topics([*_shown(ctx, topics, fetched), *refused])),
        lambda rejected: _failed(ctx, requested or [], rejected.code),
    )


def _visible(ctx: Context[CoordinationServices], topics: Topics | None) -> tuple[Topics | None, Fetched]:
    """Return the topics whose offsets are to be fetched (None: all), and the error results of the topics that the client may not describe.
    If all topics are requested, `_shown` filters them after the fetch.
    """
    if topics is None or ctx.services.authorizer is None:
        return topics, []
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, [name for name, _ in topics])
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = [
        (name, [FetchedOffset(index, NO_OFFSET, NO_LEADER_EPOCH, "", code) for index in indexes])
        for name, indexes in topics
        if name in hidden
    ]
    return [each for each in topics if each[0] not in hidden], refused


def _shown(ctx: Context[CoordinationServices], topics: Topics | None, fetched: Fetched) -> Fetched:
    """Return `fetched` without the topics that the client may not describe. Only a request for all topics is filtered here; `_visible` has
    filtered `topics` that were requested by name.
    """
    if topics is not None or ctx.services.authorizer is None:
        return fetched
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, [name for name, _ in fetched])
    return [each for each in fetched if each[0] not in hidden]


def _failed(ctx: Context[CoordinationServices], topics: Topics, error: ErrorCode) -> OffsetFetchResponse:
    """Return the response for a group whose offsets cannot be fetched. The error is at the top level, but in version 1, which has no such
    field, in each partition."""
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


def _many(ctx: Context[CoordinationServices], request: OffsetFetchRequest) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    groups = {(group.group_id, None if group.topics is None else number): group for number, group in enumerate(request.groups)}
    answers = [_ask(ctx, group, require_stable=request.require_stable) for group in groups.values()]
    return respond_when_all_ready(answers, lambda groups: OffsetFetchResponse(groups=groups))


def _ask(ctx: Context[CoordinationServices], group: OffsetFetchRequestGroup, *, require_stable: bool) -> Group | Awaitable[Group]:
    if not allowed(ctx, Operation.DESCRIBE, Resource.GROUP, group.group_id):
        return Group(group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    requested, ids, unknown = (None, {}, []) if group.topics is None else _named(ctx, group.topics)
    topics, refused = _visible(ctx, requested)
    return respond_when_ready(
        lambda: ctx.services.groups.fetch(
            group.group_id,
            topics,
            require_stable=require_stable,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            topic_ids=ids,
        ),
        lambda fetched: _group(ctx, group.group_id, unknown, [*_shown(ctx, topics, fetched), *refused]),
        lambda rejected: Group(group.group_id, error_code=rejected.code),
    )


def _named(
    ctx: Context[CoordinationServices], topics: list[OffsetFetchRequestTopics]
) -> tuple[Topics, dict[str, bytes], list[OffsetFetchRequestTopics]]:
    """Divide the requested topics into known ones and those with unknown ids. Return the known ones as (name, partitions), their ids by
    name, and the unknown ones. Before version 10 topics have no ids, and all count as known.
    """
    if ctx.version < BY_ID_SINCE:
        return [(topic.name, topic.partition_indexes) for topic in topics], {}, []
    known = [(ctx.services.topics.topic_by_id(topic.topic_id), topic) for topic in topics]
    wanted = [(found.name, topic.partition_indexes) for found, topic in known if found is not None]
    ids = {found.name: found.topic_id for found, _ in known if found is not None}
    return wanted, ids, [topic for found, topic in known if found is None]


def _group(ctx: Context[CoordinationServices], group_id: str, unknown: list[OffsetFetchRequestTopics], fetched: Fetched) -> Group:
    topics = []
    for name, offsets in fetched:
        found = ctx.services.topics.topic(name)
        if found is None and ctx.version >= BY_ID_SINCE:
            continue  # deleted meanwhile: the response could not name its id
        partitions = [
            OffsetFetchResponsePartitions(one.partition, one.offset, one.leader_epoch, one.metadata, one.error) for one in offsets
        ]
        topics.append(OffsetFetchResponseTopics(name, ZERO_ID if found is None else found.topic_id, partitions))
    return Group(group_id, topics + [_unknown(topic) for topic in unknown])


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    error = ErrorCode.UNKNOWN_TOPIC_ID
    partitions = [OffsetFetchResponsePartitions(index, NO_OFFSET, NO_LEADER_EPOCH, "", error) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions)

"""OffsetCommit (key 8), versions 2-10: stores a group's offsets.

Promises:
* An acknowledged offset is as durable as any acknowledged record.
* Unknown partitions are rejected one by one; the others are stored.
* A commit for an unknown group creates a group that only stores offsets.
* The metadata string of an offset is stored unchanged.
* From version 10 on topics are named by id (KIP-848); all partitions of an unknown id are UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from ottla.broker.api.access import allowed, denied, rejecting_response
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready, transform
from ottla.broker.api.offset_commit_topics import find_topic, topic_name
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.cluster.image import TopicImage
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.coordinator import Commit, OffsetToCommit
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API = Api(OffsetCommitRequest, splits=(Split("topics.partitions", "topics.partitions"),))

BY_ID_SINCE = 10

Known = list[TopicImage | None]
"""The topics that a request names, in the order of the request; None for an unknown topic."""


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: OffsetCommitRequest) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Store the group's offsets. Return the response, with an error code for each partition, when they are durable."""
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return rejecting_response(ctx.version, request, OffsetCommitResponse, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if ctx.services.authorizer is not None:
        names = [topic_name(ctx.services.topics, topic, by_id=ctx.version >= BY_ID_SINCE) for topic in request.topics]
        if hidden := denied(ctx, Operation.READ, Resource.TOPIC, [name for name in names if name is not None]):
            return _without(ctx, request, [name in hidden for name in names])
    return _commit(ctx, request)


def _commit(ctx: Context[CoordinationServices], request: OffsetCommitRequest) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    topics = [find_topic(ctx.services.topics, topic, by_id=ctx.version >= BY_ID_SINCE) for topic in request.topics]
    offsets = _existing(request, topics)
    can_be_absent = ctx.version >= 9 and ctx.services.settings.release_behaviour.knows_absent_groups
    commit = Commit(
        group_id=request.group_id,
        generation=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        retention_ms=request.retention_time_ms,
        knows_epochs=ctx.version >= 9,
        unknown_group_error=ErrorCode.GROUP_ID_NOT_FOUND if can_be_absent else ErrorCode.ILLEGAL_GENERATION,
        offsets=offsets,
    )
    missing = ErrorCode.UNKNOWN_TOPIC_ID if ctx.version >= BY_ID_SINCE else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return respond_when_ready(
        lambda: ctx.services.groups.commit(commit),
        lambda errors: _response(request, topics, missing, offsets, errors),
        lambda rejected: _response(request, topics, missing, offsets, [rejected.code] * len(offsets)),
    )


def _without(
    ctx: Context[CoordinationServices], request: OffsetCommitRequest, hidden: list[bool]
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Commit the offsets of the topics whose entry in `hidden` is false, and return the response, in which the other topics are
    TOPIC_AUTHORIZATION_FAILED.
    """
    rest = replace(request, topics=[topic for topic, is_hidden in zip(request.topics, hidden, strict=True) if not is_hidden])
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def whole(response: OffsetCommitResponse) -> OffsetCommitResponse:
        answers = iter(response.topics)
        response.topics = [
            OffsetCommitResponseTopic(
                topic.name, topic.topic_id, [OffsetCommitResponsePartition(one.partition_index, code) for one in topic.partitions]
            )
            if is_hidden
            else next(answers)
            for topic, is_hidden in zip(request.topics, hidden, strict=True)
        ]
        return response

    return transform(_commit(ctx, rest), whole)


def _existing(request: OffsetCommitRequest, topics: Known) -> list[OffsetToCommit]:
    return [
        OffsetToCommit(
            known.name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata,
            known.topic_id,
        )
        for topic, known in zip(request.topics, topics, strict=True)
        if known is not None
        for partition in topic.partitions
        if partition.partition_index in known.partitions
    ]


def _response(
    request: OffsetCommitRequest, topics: Known, missing: ErrorCode, offsets: list[OffsetToCommit], errors: list[ErrorCode]
) -> OffsetCommitResponse:
    """Return the response, in the order of the request. `errors` are the results of `offsets`, one for each. An unknown topic gets the
    error `missing`, and an unknown partition UNKNOWN_TOPIC_OR_PARTITION.
    """
    decided = {(offset.topic, offset.partition): error for offset, error in zip(offsets, errors, strict=True)}

    def error(known: TopicImage | None, index: int) -> ErrorCode:
        return missing if known is None else decided.get((known.name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(one.partition_index, error(known, one.partition_index)) for one in topic.partitions],
            )
            for topic, known in zip(request.topics, topics, strict=True)
        ]
    )

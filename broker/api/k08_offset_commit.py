"""OffsetCommit (key 8), versions 2-10: stores a group's offsets.

Promises:
* An acknowledged offset is as durable as any acknowledged record.
* Unknown partitions are rejected one by one; the others are stored. The response has the rejected ones first. An existing topic that the
  request names without partitions is not in the response.
* A commit for an unknown group creates a group that only stores offsets.
* The metadata string of an offset is stored unchanged.
* From version 10 on topics are named by id (KIP-848); all partitions of an unknown id are UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import repeat

from ottla.broker.api.access import allowed, rejecting_response
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.offset_commit_topics import sort_out
from ottla.broker.api.partition_results import Result, TopicKey
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.coordinator import Commit
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API = Api(OffsetCommitRequest, splits=(Split("topics.partitions", "topics.partitions"),))

BY_ID_SINCE = 10


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: OffsetCommitRequest) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Store the group's offsets. Return the response, with an error code for each partition, when they are durable."""
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return rejecting_response(ctx.version, request, OffsetCommitResponse, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    results, offsets = sort_out(ctx, request.topics, by_id=ctx.version >= BY_ID_SINCE)
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
    return respond_when_ready(
        lambda: ctx.services.groups.commit(commit),
        lambda errors: OffsetCommitResponse(topics=results.with_errors(iter(errors), _topic)),
        lambda rejected: OffsetCommitResponse(topics=results.with_errors(repeat(rejected.code), _topic)),
    )


def _topic(topic: TopicKey, results: list[Result]) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(*topic, [OffsetCommitResponsePartition(*result) for result in results])

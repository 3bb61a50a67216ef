"""OffsetCommit (key 8), versions 2-9: a group stores how far it has read.

Promises: an offset that was acknowledged survives a crash of the broker as far as any other record does. Partitions that do not exist are
refused one by one, the others stored. A commit of a group that nobody joined makes a group that only stores offsets. Metadata comes back as
it was sent.
"""

from __future__ import annotations

from collections.abc import Awaitable

from broker.api.context import Context
from broker.api.deferred import when_ready
from broker.core.rejected import Rejected
from broker.groups.coordinator import Commit, OffsetToCommit
from protocol.error_codes import ErrorCode
from protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def handle(ctx: Context, request: OffsetCommitRequest) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Store what can be stored; one error for each partition."""
    offsets = _existing(ctx, request)
    commit = Commit(
        group_id=request.group_id,
        generation=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        retention_ms=request.retention_time_ms,
        knows_epochs=ctx.version >= 9,
        unknown_group_error=ErrorCode.GROUP_ID_NOT_FOUND if ctx.version >= 9 else ErrorCode.ILLEGAL_GENERATION,
        offsets=offsets,
    )
    try:
        errors = ctx.services.groups.commit(commit)
    except Rejected as rejected:
        return _response(request, offsets, [_commit_error(rejected.code)] * len(offsets))
    return when_ready(errors, lambda known: _response(request, offsets, known))


def _existing(ctx: Context, request: OffsetCommitRequest) -> list[OffsetToCommit]:
    offsets = []
    for topic in request.topics:
        known = ctx.services.partitions.by_name(topic.name)
        for partition in topic.partitions:
            if known is None or partition.partition_index not in known.partitions:
                continue
            offsets.append(
                OffsetToCommit(
                    topic.name,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                    known.topic_id,
                )
            )
    return offsets


def _commit_error(code: ErrorCode) -> ErrorCode:
    """Records too large for the log are the committer's doing (KAFKA: OffsetCommitResponse's documented errors)."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code is ErrorCode.UNKNOWN_SERVER_ERROR else code


def _response(request: OffsetCommitRequest, offsets: list[OffsetToCommit], errors: list[ErrorCode]) -> OffsetCommitResponse:
    """The errors in the order of the request; what was not handed to the group does not exist."""
    known = {(offset.topic, offset.partition): error for offset, error in zip(offsets, errors, strict=True)}
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                [
                    OffsetCommitResponsePartition(
                        partition.partition_index,
                        known.get((topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

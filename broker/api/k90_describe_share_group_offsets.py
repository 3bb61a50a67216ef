"""DescribeShareGroupOffsets (key 90), versions 0-1: the start offsets of share groups, and from version 1 on their lag.

Promises:
* A request without a list of topics gets all partitions for which the share group has state, of the topics that the client may describe.
* A topic that is named twice has one entry, with all requested partitions, each once.
* A partition without a start offset has the start offset -1. This is no error, even if the partition or its topic does not exist.
* The lag is the number of records up to the high watermark that are neither acknowledged nor archived. It is -1 until the group has read
  from the partition.
* Each group fails by itself: GROUP_AUTHORIZATION_FAILED, or UNSUPPORTED_VERSION without the feature share.version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ottla.broker.api.access import allowed as is_allowed
from ottla.broker.api.access import denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.share_groups import enabled
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.share_group_service import DescribedOffset
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

API = Api(DescribeShareGroupOffsetsRequest, splits=(Split("groups.topics.partitions", "groups.topics.partitions"),))


@API.on_broker()
async def handle(ctx: Context[CoordinationServices], request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    """Return the start offsets, by partition, of the share groups that the request names. Each group succeeds or fails by itself."""
    groups = await asyncio.gather(*(_describe(ctx, group) for group in request.groups))
    return DescribeShareGroupOffsetsResponse(groups=list(groups))


async def _describe(
    ctx: Context[CoordinationServices], group: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = group.group_id
    if not enabled(ctx):
        return DescribeShareGroupOffsetsResponseGroup(group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not is_allowed(ctx, Operation.DESCRIBE, Resource.GROUP, group_id):
        return DescribeShareGroupOffsetsResponseGroup(group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        topics = await (_all(ctx, group_id) if group.topics is None else _named(ctx, group_id, group.topics))
    except Rejected as rejected:
        return DescribeShareGroupOffsetsResponseGroup(group_id, error_code=rejected.code, error_message=rejected.message or None)
    return DescribeShareGroupOffsetsResponseGroup(group_id, topics)


async def _all(ctx: Context[CoordinationServices], group_id: str) -> list[DescribeShareGroupOffsetsResponseTopic]:
    services = ctx.services
    names = {
        topic_id: topic.name
        for topic_id in services.share.groups.initialized_partitions(group_id)
        if (topic := services.topics.topic_by_id(topic_id)) is not None
    }
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, names.values(), quietly=True)
    partitions = services.share.groups.initialized_partitions(group_id)
    wanted = {topic_id: partitions[topic_id] for topic_id, name in names.items() if name not in hidden}
    return await _described(ctx, group_id, names, wanted)


async def _named(
    ctx: Context[CoordinationServices], group_id: str, topics: Sequence[DescribeShareGroupOffsetsRequestTopic]
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    if not group_id.strip():
        raise Rejected(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, [topic.topic_name for topic in topics])
    visible = [topic for topic in topics if topic.topic_name not in hidden]
    known = {topic.topic_name: found for topic in visible if (found := ctx.services.topics.topic(topic.topic_name)) is not None}
    wanted: dict[bytes, dict[int, None]] = {}
    for topic in visible:
        if topic.topic_name in known:
            wanted.setdefault(known[topic.topic_name].topic_id, {}).update(dict.fromkeys(topic.partitions))
    names = {found.topic_id: name for name, found in known.items()}
    described = await _described(ctx, group_id, names, {topic_id: list(partitions) for topic_id, partitions in wanted.items()})
    described += [_topic(topic.topic_name, topic.partitions, ErrorCode.NONE) for topic in visible if topic.topic_name not in known]
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return described + [_topic(topic.topic_name, topic.partitions, code) for topic in topics if topic.topic_name in hidden]


async def _described(
    ctx: Context[CoordinationServices], group_id: str, names: Mapping[bytes, str], wanted: Mapping[bytes, Sequence[int]]
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    found = await ctx.services.share.groups.describe_offsets(group_id, wanted)
    return [
        DescribeShareGroupOffsetsResponseTopic(names[topic_id], topic_id, [_partition(each) for each in partitions])
        for topic_id, partitions in found.items()
    ]


def _partition(described: DescribedOffset) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=described.partition,
        start_offset=described.start_offset,
        leader_epoch=described.leader_epoch,
        lag=described.lag,
        error_code=described.error,
    )


def _topic(name: str, partitions: Sequence[int], error: ErrorCode) -> DescribeShareGroupOffsetsResponseTopic:
    """Return the response entry for a topic that does not exist (without an error), or that the client may not describe (with `error`). Its
    partitions have no start offset."""
    message = None if error is ErrorCode.NONE else "Topic authorization failed."
    return DescribeShareGroupOffsetsResponseTopic(
        name,
        ZERO_ID,
        [
            DescribeShareGroupOffsetsResponsePartition(index, start_offset=-1, error_code=error, error_message=message)
            for index in partitions
        ],
    )

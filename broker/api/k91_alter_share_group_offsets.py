"""AlterShareGroupOffsets (key 91), version 0: sets the start offsets of a share group without members.

Promises:
* The group need not exist. Each altered share partition starts at its new offset, without delivery states. A group with members is
  NON_EMPTY_GROUP, one of another type GROUP_ID_NOT_FOUND.
* Each partition has its own error: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.api.access import allowed, denied, rejecting_response
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.share_groups import enabled, text_of
from ottla.broker.cluster.image import TopicImage
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

API = Api(AlterShareGroupOffsetsRequest, array_limits={"topics": 10_000, "topics.partitions": 10_000})

_UNKNOWN = Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
_DENIED = Rejected(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")


@API.on_broker()
async def handle(ctx: Context[CoordinationServices], request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    """Set start offsets of a share group without members. When they are durable, return a result for each partition."""
    if not enabled(ctx):
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return rejecting_response(ctx.version, request, AlterShareGroupOffsetsResponse, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID, error_message="The group id is empty.")
    hidden = denied(ctx, Operation.READ, Resource.TOPIC, [topic.topic_name for topic in request.topics])
    topics = {topic.topic_name: found for topic in request.topics if (found := ctx.services.topics.topic(topic.topic_name)) is not None}
    offsets = {
        (topics[topic.topic_name].topic_id, partition.partition_index): partition.start_offset
        for topic in request.topics
        if topic.topic_name in topics and topic.topic_name not in hidden
        for partition in topic.partitions
        if partition.partition_index in topics[topic.topic_name].partitions
    }
    try:
        failures = await ctx.services.share.groups.alter_offsets(request.group_id, offsets)
    except Rejected as rejected:
        return AlterShareGroupOffsetsResponse(error_code=rejected.code, error_message=text_of(rejected))

    def result(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
        found = topics.get(topic.topic_name)
        if topic.topic_name not in hidden:
            return _topic(topic, found, _UNKNOWN, failures)
        answer = _topic(topic, None, _DENIED, {})
        answer.topic_id = ZERO_ID if found is None else found.topic_id  # as in Kafka, although the client is not authorized
        return answer

    return AlterShareGroupOffsetsResponse(responses=[result(topic) for topic in request.topics])


def _topic(
    topic: AlterShareGroupOffsetsRequestTopic,
    found: TopicImage | None,
    missing: Rejected,
    failures: Mapping[tuple[bytes, int], Rejected],
) -> AlterShareGroupOffsetsResponseTopic:
    partitions = []
    for partition in topic.partitions:
        index = partition.partition_index
        known = found is not None and index in found.partitions
        failure = failures.get((found.topic_id, index)) if known and found is not None else missing
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(index)
            if failure is None
            else AlterShareGroupOffsetsResponsePartition(index, failure.code, failure.message or None)
        )
    return AlterShareGroupOffsetsResponseTopic(topic.topic_name, ZERO_ID if found is None else found.topic_id, partitions)

"""OffsetDelete (key 47), version 0: deletes committed offsets of a group.

Promises: offsets of topics to which a live consumer of the group subscribes are kept (GROUP_SUBSCRIBED_TO_TOPIC). A group with members
that are not consumers is NON_EMPTY_GROUP. Deleting an offset that does not exist succeeds; unknown partitions are rejected one by one, and
come first in the response. If the group begins to reject a request that is handled in parts, the offsets of the earlier parts are reported
as deleted, and only the others have the error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from itertools import repeat

from ottla.broker.api.access import allowed, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.partition_results import PartitionResults, Result, TopicKey
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.cluster.topic_ids import ZERO_ID
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
    """Delete committed offsets of a group, for the partitions that the request names. When the deletions are durable, return an error code
    for each partition."""
    if not allowed(ctx, Operation.DELETE, Resource.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    results = _sorted_out(ctx, request)
    topics = [(name, indexes) for (name, _), indexes in results.accepted]
    return respond_when_ready(
        lambda: ctx.services.groups.delete_offsets(request.group_id, topics),
        lambda errors: OffsetDeleteResponse(topics=results.with_errors(_of_partitions(errors, topics), _topic)),
        lambda rejected: _failed(ctx, results, rejected.code),
    )


def _failed(ctx: Context[CoordinationServices], results: PartitionResults, error: ErrorCode) -> OffsetDeleteResponse:
    """Return the response if the group rejects the request. If earlier parts of the request have deleted offsets, only the partitions of
    this part fail, because the client must not take those offsets for kept; an error that makes it repeat the request is the request's.
    """
    if ctx.is_later_part and not error.retriable:
        return OffsetDeleteResponse(topics=results.with_errors(repeat(error), _topic))
    return OffsetDeleteResponse(error_code=error)


def _sorted_out(ctx: Context[CoordinationServices], request: OffsetDeleteRequest) -> PartitionResults:
    hidden = denied(ctx, Operation.READ, Resource.TOPIC, [topic.name for topic in request.topics])
    results = PartitionResults()
    for topic in request.topics:
        key, indexes = (topic.name, ZERO_ID), [partition.partition_index for partition in topic.partitions]
        if topic.name in hidden:
            results.reject(key, indexes, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif (known := ctx.services.topics.topic(topic.name)) is None:
            results.reject(key, indexes, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            results.sort_out(key, indexes, known.partitions)
    return results


def _of_partitions(errors: list[tuple[str, ErrorCode]], topics: Topics) -> Iterator[ErrorCode]:
    """Yield one error code for each partition in `topics`. `errors` has one error code for each topic, which applies to all of the topic's
    partitions."""
    for (_, error), (_, indexes) in zip(errors, topics, strict=True):
        yield from repeat(error, len(indexes))


def _topic(topic: TopicKey, results: list[Result]) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(topic[0], [OffsetDeleteResponsePartition(*result) for result in results])

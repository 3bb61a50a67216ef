"""DescribeTopicPartitions (key 75), version 0: topics in the order of their names, in pages (KIP-966).

Promises: an empty list of topics requests all. A response has at most `response_partition_limit` partitions (between 1 and 2000) of at
most 2000 topics. If there are more, `next_cursor` is the first partition that was left out, and a request with this cursor continues
there. If the cursor's topic is not in the list, or its partition is negative, every requested topic is INVALID_REQUEST.
"""

from __future__ import annotations

from bisect import bisect_left

from ottla.broker.api.access import denied, operations
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ClusterServices
from ottla.broker.cluster.image import TopicImage
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.core.acl import Operation, Resource
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.topic_names import name_problem

API = Api(DescribeTopicPartitionsRequest, array_limits={"topics": 25_000})

PARTITIONS_MAX = 2000
"""The maximum number of partitions in one response, Kafka's default of max.request.partition.size.limit. It also limits the number of
topics in a response, for which Kafka has no limit."""


@API.on_broker()
def handle(ctx: Context[ClusterServices], request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Return the topics and their partitions, beginning at the request's cursor, until the response has as many partitions as the request
    allows. `next_cursor` of the response says where the next request continues."""
    cursor = request.cursor
    all_topics = not request.topics
    names = [topic.name for topic in ctx.services.topics.topics()] if all_topics else sorted({topic.name for topic in request.topics})
    if cursor is not None and (cursor.partition_index < 0 or (not all_topics and cursor.topic_name not in names)):
        code = ErrorCode.INVALID_REQUEST
        return DescribeTopicPartitionsResponse(
            topics=[DescribeTopicPartitionsResponseTopic(code, topic.name) for topic in request.topics],
        )
    response = DescribeTopicPartitionsResponse()
    begin = 0 if cursor is None else bisect_left(names, cursor.topic_name)
    page = names[begin : begin + PARTITIONS_MAX]
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, page)
    left = max(min(request.response_partition_limit, PARTITIONS_MAX), 1)
    for name in page:
        if name in hidden:
            continue
        if left == 0:
            response.next_cursor = Cursor(name, 0)
            break
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        answer, next_index = _describe(ctx, name, first, left)
        response.topics.append(answer)
        if next_index is not None:
            response.next_cursor = Cursor(name, next_index)
            break
        left -= len(answer.partitions)
    else:
        if begin + len(page) < len(names):
            response.next_cursor = Cursor(names[begin + len(page)], 0)
    if not all_topics:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.topics += [DescribeTopicPartitionsResponseTopic(code, name) for name in page if name in hidden]
    return response


def _describe(ctx: Context[ClusterServices], name: str, first: int, limit: int) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """Return the topic with at most `limit` partitions, from index `first` on. Also return the index of the first partition that was left
    out because of `limit`, or None."""
    topic = ctx.services.topics.topic(name)
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name_problem(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
        unknown = DescribeTopicPartitionsResponseTopic(
            code, name, is_internal=is_internal(name), topic_authorized_operations=operations(ctx, Resource.TOPIC, name)
        )
        return unknown, None
    end = min(len(topic.partitions), first + limit)
    answer = DescribeTopicPartitionsResponseTopic(
        0,
        name,
        topic.topic_id,
        topic.is_internal,
        [_partition(ctx, topic, index) for index in range(first, end)],
        operations(ctx, Resource.TOPIC, name),
    )
    return answer, end if end < len(topic.partitions) else None


def _partition(ctx: Context[ClusterServices], topic: TopicImage, index: int) -> DescribeTopicPartitionsResponsePartition:
    partition = ctx.services.cluster.partition(topic, index, ctx.peer.client_listener)
    state = partition.state
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=list(partition.offline),
    )

"""DescribeTopicPartitions (key 75), version 0: topics in the order of their names, in pages (KIP-966).

Promises:
* An empty list of topics requests all topics that the client may describe.
* A response has at most `response_partition_limit` partitions (between 1 and 2000). If there are more, `next_cursor` is the first
  partition that was left out, and a request with this cursor continues there. It never names a topic that the client may not describe.
* If the cursor's topic is not in the list, or its partition is negative, every requested topic is INVALID_REQUEST.

Source: KAFKA DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Sequence

from ottla.broker.api.access import denied, operations
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.listing import respond_with_list
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
"""The maximum number of partitions in one response, Kafka's default of max.request.partition.size.limit."""


@API.on_broker()
def handle(
    ctx: Context[ClusterServices], request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Awaitable[DescribeTopicPartitionsResponse]:
    """Return the topics and their partitions, beginning at the request's cursor, until the response has as many partitions as the request
    allows. `next_cursor` of the response says where the next request continues. If there are many topics, other requests run in between."""
    cursor = request.cursor
    all_topics = not request.topics
    names = [topic.name for topic in ctx.services.topics.topics()] if all_topics else sorted({topic.name for topic in request.topics})
    if cursor is not None and (cursor.partition_index < 0 or (not all_topics and cursor.topic_name not in names)):
        code = ErrorCode.INVALID_REQUEST
        return DescribeTopicPartitionsResponse(
            topics=[DescribeTopicPartitionsResponseTopic(code, topic.name) for topic in request.topics],
        )
    begin = 0 if cursor is None else bisect_left(names, cursor.topic_name)
    page = _Page(ctx, request)
    return respond_with_list(ctx, names[begin:], page.describe, page.respond, is_complete=lambda: page.next_cursor is not None)


class _Page:
    """The response while it is made. `next_cursor` is None until a partition has to be left out; then the response is complete."""

    def __init__(self, ctx: Context[ClusterServices], request: DescribeTopicPartitionsRequest) -> None:
        self._ctx = ctx
        self._all_topics = not request.topics
        self._cursor = request.cursor
        self._left = max(min(request.response_partition_limit, PARTITIONS_MAX), 1)
        self._hidden: list[str] = []
        self.next_cursor: Cursor | None = None

    def describe(self, names: Sequence[str]) -> list[DescribeTopicPartitionsResponseTopic]:
        """Describe the next topics, up to the partition limit. Topics that the client may not describe use nothing of it, and are only
        reported if the request names them."""
        hidden = denied(self._ctx, Operation.DESCRIBE, Resource.TOPIC, names)
        described: list[DescribeTopicPartitionsResponseTopic] = []
        for name in names:
            if name in hidden:
                self._hidden.append(name)
            elif self._all_topics and self._ctx.services.topics.topic(name) is None:
                continue  # it was deleted since the list of all topics was made
            elif self._left == 0:
                self.next_cursor = Cursor(name, 0)
            else:
                first = self._cursor.partition_index if self._cursor is not None and name == self._cursor.topic_name else 0
                topic, next_index = _describe(self._ctx, name, first, self._left)
                described.append(topic)
                self._left -= len(topic.partitions)
                self.next_cursor = None if next_index is None else Cursor(name, next_index)
            if self.next_cursor is not None:
                break
        return described

    def respond(self, topics: list[DescribeTopicPartitionsResponseTopic]) -> DescribeTopicPartitionsResponse:
        """Return the response with the described `topics`, followed by those that the request names and the client may not describe."""
        if not self._all_topics:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topics += [DescribeTopicPartitionsResponseTopic(code, name) for name in self._hidden]
        return DescribeTopicPartitionsResponse(topics=topics, next_cursor=self.next_cursor)


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

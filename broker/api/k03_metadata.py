"""Metadata (key 3), versions 0-13: the live brokers, and the requested topics with their partitions.

Promises:
* All topics are requested by an empty list in version 0, by null in later versions. From version 12 on a request with topic ids is
  answered by id only.
* An unknown topic that is requested by name is created automatically if broker and request allow it. This response has
  UNKNOWN_TOPIC_OR_PARTITION, so that the client retries (KAFKA: DefaultAutoTopicCreationManager). If the creation fails the topic stays
  unknown and the log has the reason; only an invalid name is rejected at once. A request for all topics creates none.
* Each broker has the address of its listener of the same name as the one to which the client connected. (A standalone node without an
  advertised address returns the address to which the client connected.) A partition whose leader has no such listener is
  LISTENER_NOT_FOUND, and a partition without a leader LEADER_NOT_AVAILABLE.
* A topic that is being deleted is returned completely, or as UNKNOWN_TOPIC_OR_PARTITION without partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Sequence

from ottla.broker.api.access import allowed_of_cluster, denied, operations, operations_of_cluster
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.listing import respond_with_list
from ottla.broker.api.mutation_quota import charged
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import ClusterServices
from ottla.broker.cluster.image import TopicImage
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.runtime.metadata.cluster_view import ReportedPartition
from ottla.broker.runtime.metadata.topic_making import Requester
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.topic_names import name_problem

API = Api(MetadataRequest, splits=(Split("topics", "topics", ("name topic_id",)),))

TOPICS_AT_ONCE = 500
"""The number of topics that a request for all topics describes in one turn of the event loop. At 10 us per topic, this takes 5 ms."""

LISTENER_NOT_FOUND_SINCE = 6
"""The first Metadata version whose clients know the error LISTENER_NOT_FOUND. Older versions get LEADER_NOT_AVAILABLE instead."""
_HIDDEN = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
"""Errors with which a topic's authorized operations are not returned, because the client does not see the topic."""


@API.on_broker()
def handle(ctx: Context[ClusterServices], request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Describe the live brokers and the requested topics. If automatic creation is allowed, the creation of missing topics is started, but
    the response does not wait for it."""
    topics = request.topics
    if topics is None or (ctx.version == 0 and not topics):
        return _all(ctx, request)
    if ctx.version < 12 and any(topic.name is None or topic.topic_id != ZERO_ID for topic in topics):
        refused = [MetadataResponseTopic(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id) for topic in topics]
        return MetadataResponse(topics=refused)
    ids = dict.fromkeys(topic.topic_id for topic in topics if topic.topic_id != ZERO_ID)
    names = [topic.name for topic in topics if topic.name is not None]
    described = _describe_ids(ctx, ids) if ids else _describe_names(ctx, request, names)
    return _respond(ctx, request, _with_operations(ctx, request, described))


def _all(ctx: Context[ClusterServices], request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Describe all topics that the client may describe. If there are many, other requests run in between."""

    def describe(some: Sequence[TopicImage]) -> list[MetadataResponseTopic]:
        hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, (topic.name for topic in some), quietly=True)
        return _with_operations(ctx, request, [_describe(ctx, topic) for topic in some if topic.name not in hidden])

    every = ctx.services.topics.topics()
    return respond_with_list(ctx, every, describe, lambda topics: _respond(ctx, request, topics), TOPICS_AT_ONCE)


def _respond(ctx: Context[ClusterServices], request: MetadataRequest, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    services = ctx.services
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in services.cluster.brokers(ctx.peer.client_listener)
            if not broker.fenced
        ],
        cluster_id=services.cluster_id,
        controller_id=services.cluster.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations_of_cluster(ctx)
    return response


def _with_operations(
    ctx: Context[ClusterServices], request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> list[MetadataResponseTopic]:
    """Set the client's authorized operations in each of `topics`, if the request asks for them, and return `topics`."""
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None and topic.error_code not in _HIDDEN:
                topic.topic_authorized_operations = operations(ctx, Resource.TOPIC, topic.name)
    return topics


def _describe_names(ctx: Context[ClusterServices], request: MetadataRequest, requested: Iterable[str]) -> list[MetadataResponseTopic]:
    """Describe topics by name. Without DESCRIBE on a topic, the client gets TOPIC_AUTHORIZATION_FAILED, whether or not the topic exists.
    With DESCRIBE but without CREATE, it gets this error if the topic does not exist and would be created automatically.
    """
    names = list(dict.fromkeys(requested))
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, names)
    not_made: Collection[str] = ()
    made: Collection[str] = ()
    if request.allow_auto_topic_creation and ctx.services.settings.auto_create_topics_enable:
        missing = [name for name in names if name not in hidden and ctx.services.topics.topic(name) is None]
        if missing and not allowed_of_cluster(ctx, Operation.CREATE, quietly=True):
            not_made = denied(ctx, Operation.CREATE, Resource.TOPIC, missing)
        made = [name for name in missing if name not in not_made and name_problem(name) is None]
        if made:
            requester = Requester(ctx.peer, ctx.client_id, charged(ctx, strict_since=0)[0])
            ctx.services.topic_maker.begin_auto_create(made, requester)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        MetadataResponseTopic(code, name, is_internal=name in not_made and is_internal(name))
        if name in hidden or name in not_made
        else _being_created(ctx, name)
        if name in made and ctx.services.settings.release_behaviour.has_zookeeper
        else _describe_name(ctx, name)
        for name in names
    ]


def _being_created(ctx: Context[ClusterServices], name: str) -> MetadataResponseTopic:
    """Return the response entry for a topic whose automatic creation has begun, for a broker that imitates a Kafka release with ZooKeeper.
    The entry's error is LEADER_NOT_AVAILABLE, or INVALID_TOPIC_EXCEPTION if the name collides with an existing topic.
    """
    collides = ctx.services.topics.colliding(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if collides else ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponseTopic(code, name, is_internal=is_internal(name))


def _describe_ids(ctx: Context[ClusterServices], ids: Iterable[bytes]) -> list[MetadataResponseTopic]:
    found = [(topic_id, ctx.services.topics.topic_by_id(topic_id)) for topic_id in ids]
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, [topic.name for _, topic in found if topic is not None])
    answers = []
    for topic_id, topic in found:
        if topic is None:
            answers.append(MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        elif topic.name in hidden:
            answers.append(MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id))
        else:
            answers.append(_describe(ctx, topic))
    return answers


def _describe_name(ctx: Context[ClusterServices], name: str) -> MetadataResponseTopic:
    topic = ctx.services.topics.topic(name)
    if topic is not None:
        return _describe(ctx, topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name_problem(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(code, name, is_internal=is_internal(name))


def _describe(ctx: Context[ClusterServices], topic: TopicImage) -> MetadataResponseTopic:
    at = ctx.peer.client_listener
    partitions = [_partition(ctx, index, ctx.services.cluster.partition(topic, index, at)) for index in sorted(topic.partitions)]
    return MetadataResponseTopic(0, topic.name, topic.topic_id, topic.is_internal, partitions)


def _partition(ctx: Context[ClusterServices], index: int, partition: ReportedPartition) -> MetadataResponsePartition:
    """Describe a partition. Version 0 returns only replicas that the client can reach, with an error if any is omitted."""
    state, error = partition.state, partition.error
    replicas, isr = state.replicas, state.isr
    if ctx.version == 0 and partition.hidden:
        replicas, isr = (tuple(node for node in nodes if node not in partition.hidden) for nodes in (replicas, isr))
        error = error or ErrorCode.REPLICA_NOT_AVAILABLE
    if error is ErrorCode.LISTENER_NOT_FOUND and ctx.version < LISTENER_NOT_FOUND_SINCE:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(error, index, partition.leader, state.leader_epoch, list(replicas), list(isr), list(partition.offline))

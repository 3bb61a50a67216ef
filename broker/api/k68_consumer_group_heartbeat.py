"""ConsumerGroupHeartbeat (key 68), versions 0-1: joins, keeps alive or leaves a consumer group of KIP-848.

Promises:
* The response does not wait for a rebalance: it is sent as soon as the heartbeat's changes are durable.
* A partition is assigned to a member only after the previous owner has revoked it or was removed.
* The assignment is returned when it has changed, and whenever the member sent its full state.
* A regular expression (version 1) is resolved after the response; a later heartbeat returns its topics.
* An unknown member is UNKNOWN_MEMBER_ID, a wrong epoch FENCED_MEMBER_EPOCH. If `group.coordinator.rebalance.protocols` lacks `consumer`,
  the response is UNSUPPORTED_VERSION.

The rack id is stored and described (ConsumerGroupDescribe), but does not affect assignments.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.describable_topics import describable_topics
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.consumer_heartbeat import Heartbeat, HeartbeatResult
from ottla.broker.groups.consumer_member import Assignment as Partitions
from ottla.broker.groups.consumer_member import assignment_from, topics_of
from ottla.broker.runtime.coordination.group_service import random_member_id
from ottla.protocol.consumer_group_log import AssignedTopic
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k68_consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

API = Api(ConsumerGroupHeartbeatRequest, array_limits={"subscribed_topic_names": 20_000, "topic_partitions.partitions": 50_000})

MESSAGE_MAX = 1_000
"""The longest error message in characters; longer ones are cut. A message can quote ids and regular expressions, which together may be
longer than a string field of the protocol."""


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    """Handle a heartbeat, by which a member joins, stays in or leaves a consumer group (KIP-848). Respond when the resulting changes of the
    group are durable."""
    if "consumer" not in ctx.services.settings.group_coordinator_rebalance_protocols:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if denied(ctx, Operation.DESCRIBE, Resource.TOPIC, set(request.subscribed_topic_names or ())):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return respond_when_ready(
        lambda: ctx.services.groups.consumer_heartbeat(_heartbeat(ctx, request)),
        _response,
        lambda rejected: ConsumerGroupHeartbeatResponse(error_code=rejected.code, error_message=rejected.message[:MESSAGE_MAX] or None),
    )


def _heartbeat(ctx: Context[CoordinationServices], request: ConsumerGroupHeartbeatRequest) -> Heartbeat:
    requires_member_id = ctx.version >= 1
    joins_without_id = not requires_member_id and not request.member_id and request.member_epoch == 0
    names = request.subscribed_topic_names
    return Heartbeat(
        group_id=request.group_id,
        member_id=random_member_id(ctx.services.random_bytes) if joins_without_id else request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.peer.host}",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=_owned(request.topic_partitions),
        requires_member_id=requires_member_id,
        may_describe=describable_topics(ctx),
    )


def _owned(topics: list[TopicPartitions] | None) -> Partitions | None:
    if topics is None:
        return None
    listed = [AssignedTopic(topic.topic_id, topic.partitions) for topic in topics]
    # A topic without partitions still makes the list non-empty, which is invalid for a member that joins.
    return assignment_from(listed) or {topic.topic_id: frozenset() for topic in listed}


def _response(answer: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = answer.assignment
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None
        if assignment is None
        else Assignment([TopicPartitions(one.topic_id, one.partitions) for one in topics_of(assignment)]),
    )

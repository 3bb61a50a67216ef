"""ShareGroupHeartbeat (key 76), version 1: joins, keeps alive or leaves a share group.

Promises:
* The response is sent when the heartbeat's changes are durable. The share coordinator's state of new share partitions is initialized after
  the response, and a later heartbeat assigns these partitions.
* The assignment is returned when it has changed, and whenever the member sent its subscription.
* An unknown member is UNKNOWN_MEMBER_ID, a wrong epoch FENCED_MEMBER_EPOCH, a group of another type GROUP_ID_NOT_FOUND. Without the feature
  share.version the response is UNSUPPORTED_VERSION.

The rack id is stored and described (ShareGroupDescribe), but does not affect assignments.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.share_groups import MEMBER_ID_CHARS_MAX, enabled
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.consumer_heartbeat import HeartbeatResult
from ottla.broker.groups.consumer_member import topics_of
from ottla.broker.groups.share_heartbeat import ShareHeartbeat
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k76_share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

API = Api(ShareGroupHeartbeatRequest, array_limits={"subscribed_topic_names": 10_000})


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    """Handle a heartbeat, by which a member joins, stays in or leaves a share group (KIP-932). Respond when the resulting changes of the
    group are durable."""
    if not enabled(ctx):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not 0 < len(request.member_id) <= MEMBER_ID_CHARS_MAX:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)  # without an error message, as in Kafka
    if denied(ctx, Operation.DESCRIBE, Resource.TOPIC, set(request.subscribed_topic_names or ())):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return respond_when_ready(
        lambda: ctx.services.share.groups.heartbeat(_heartbeat(ctx, request)),
        _response,
        lambda rejected: ShareGroupHeartbeatResponse(error_code=rejected.code, error_message=rejected.message or None),
    )


def _heartbeat(ctx: Context[CoordinationServices], request: ShareGroupHeartbeatRequest) -> ShareHeartbeat:
    names = request.subscribed_topic_names
    return ShareHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.peer.host}",
        topic_names=None if names is None else frozenset(names),
    )


def _response(answer: HeartbeatResult) -> ShareGroupHeartbeatResponse:
    assignment = answer.assignment
    return ShareGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None
        if assignment is None
        else Assignment([TopicPartitions(one.topic_id, one.partitions) for one in topics_of(assignment)]),
    )

"""StreamsGroupHeartbeat (key 88), versions 0-1: joins, keeps alive or leaves a streams group (KIP-1071).

Promises:
* The response is sent when the heartbeat's changes are durable. Missing internal topics are created after the response, and a later
  heartbeat assigns the tasks.
* The response has the member's tasks when they have changed, and when the member joins or lists its tasks. It has the endpoints of all
  members when any of them may have changed.
* The response's status lists the reasons why the group cannot work: missing or wrongly partitioned topics, a delayed assignment, an
  older topology, a requested shutdown, or client tags that the group requires and the member lacks (from version 1 on).
* A static member that left with epoch -2 gets its tasks back under a new member id (from Kafka 4.4 on).
* An unknown member is UNKNOWN_MEMBER_ID, a wrong epoch FENCED_MEMBER_EPOCH, a group of another type GROUP_ID_NOT_FOUND. Without the feature
  streams.version, or without `streams` in `group.coordinator.rebalance.protocols`, the response is UNSUPPORTED_VERSION.

Deviations: an endpoint is returned without partitions while topics contradict the topology; Kafka's response is UNKNOWN_SERVER_ERROR. If
the response with an assignment is lost, a member gets the assignment again when it lists its owned tasks; Kafka does not send it again.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.streams_groups import enabled, topics_of
from ottla.broker.api.streams_topics import begin_internal_topics
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected, clipped
from ottla.broker.groups.streams_heartbeat import StreamsHeartbeatResult
from ottla.broker.streams.internal_topics import Status as StatusCode
from ottla.broker.streams.tasks import Tasks, sorted_tasks
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k88_streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from ottla.protocol.messages.streams_group import TaskIds
from ottla.protocol.topic_names import name_problem

_TOPICS = (
    "source_topics",
    "repartition_sink_topics",
    "repartition_source_topics",
    "state_changelog_topics",
    "copartition_groups.source_topics",
    "copartition_groups.repartition_source_topics",
)
_INTERNAL_TOPICS = ("repartition_source_topics", "state_changelog_topics")
_WITH_TAGS = 1
"""The first StreamsGroupHeartbeat version whose clients know the status MISSING_CLIENT_TAGS."""
_TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")
API = Api(
    StreamsGroupHeartbeatRequest,
    array_limits={"topology.subtopologies": 1_000}
    | {f"topology.subtopologies.{path}": 2_000 for path in _TOPICS}
    | {f"topology.subtopologies.{path}.topic_configs": 10_000 for path in _INTERNAL_TOPICS}
    | {f"{kind}.partitions": 50_000 for kind in _TASKS}
    | {"client_tags": 1_000, "task_offsets": 50_000, "task_end_offsets": 50_000},
)


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    """Handle a heartbeat, by which a member joins, stays in or leaves a streams group (KIP-1071). Respond when the resulting changes of the
    group are durable."""
    if not enabled(ctx):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.topology is not None and (refusal := _refusal(ctx, request.topology)) is not None:
        return _rejection(refusal)
    return respond_when_ready(
        lambda: ctx.services.groups.streams_heartbeat(request, ctx.client_id or "", f"/{ctx.peer.host}"),
        lambda answer: _response(ctx, answer),
        _rejection,
    )


def _rejection(rejected: Rejected) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=rejected.code, error_message=rejected.message or None)


def _refusal(ctx: Context[CoordinationServices], topology: Topology) -> Rejected | None:
    """Return an error if the topology names a Kafka-internal topic, an invalid topic name, or a topic that the client may not describe;
    otherwise None.
    """
    names = list(dict.fromkeys(name for subtopology in topology.subtopologies for name in topics_of(subtopology)))
    internal = [name for name in names if is_internal(name)]
    if internal:
        text = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        return Rejected(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    invalid = [name for name in names if name_problem(name) is not None]
    if invalid:
        text = f"Topic names {','.join(invalid)} are not valid topic names."
        return Rejected(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if denied(ctx, Operation.DESCRIBE, Resource.TOPIC, set(names)):
        return Rejected(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _response(ctx: Context[CoordinationServices], answer: StreamsHeartbeatResult) -> StreamsGroupHeartbeatResponse:
    tasks = answer.tasks
    response = StreamsGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        task_offset_interval_ms=answer.task_offset_interval_ms,
        acceptable_recovery_lag=answer.acceptable_recovery_lag,
        status=[
            Status(code, detail) for code, detail in answer.status if code != StatusCode.MISSING_CLIENT_TAGS or ctx.version >= _WITH_TAGS
        ],
        active_tasks=None if tasks is None else _task_ids(tasks.active),
        standby_tasks=None if tasks is None else _task_ids(tasks.standby),
        warmup_tasks=None if tasks is None else _task_ids(tasks.warmup),
        endpoint_information_epoch=answer.endpoint_epoch,
        partitions_by_user_endpoint=answer.endpoints,
    )
    begin_internal_topics(ctx, response, answer.topics_to_create)
    for status in response.status or ():
        status.status_detail = clipped(status.status_detail)
    return response


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id, partitions) for subtopology_id, partitions in sorted_tasks(tasks)]

"""StreamsGroupDescribe (key 89), versions 0-1: state, topology, members and tasks of streams groups.

Promises: an unknown group, or one of another type, is GROUP_ID_NOT_FOUND with a message; each group succeeds or fails by itself. When
all source and internal topics exist, the topology has the partition counts that the broker computed; before, it is as the client sent it.
Authorized operations are returned on request. Without the feature streams.version, or without `streams` in
`group.coordinator.rebalance.protocols`, every group is UNSUPPORTED_VERSION. A group that is named twice is described once. In version 1
the response also has the assignor. It never has a topology description, because none is stored
(`k93_streams_group_topology_description_update`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.group_descriptions import describe_groups
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.streams_groups import enabled, topics_of
from ottla.broker.groups.streams_group import OffsetReport, StreamsGroup
from ottla.broker.groups.streams_member import StreamsMember
from ottla.broker.streams.tasks import TaskSet, sorted_tasks
from ottla.protocol.messages.k89_streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Topology,
)
from ottla.protocol.messages.streams_group import Endpoint, KeyValue, TaskIds, TaskOffset

_NOT_REQUESTED, _NOT_STORED = 0, 1
_ASSIGNOR = "sticky"
"""The name of the assignor in the response. It is the only value that the setting `group.streams.assignors` can have."""
API = Api(StreamsGroupDescribeRequest, splits=(Split("group_ids", "groups"),))


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
    """Return state, topology, members and tasks of the streams groups that the request names. A group of another type is
    GROUP_ID_NOT_FOUND."""
    status = _NOT_STORED if request.include_topology_description else _NOT_REQUESTED
    groups = describe_groups(
        ctx,
        request,
        kind="streams",
        enabled=enabled(ctx),
        describe=lambda group: _described(group, status) if isinstance(group, StreamsGroup) else None,
        refuse=DescribedGroup,
        topics=_topics,
        hidden_text="The described group uses topics that the client is not authorized to describe.",
    )
    return StreamsGroupDescribeResponse(groups=groups)


def _topics(group: DescribedGroup) -> Iterator[str]:
    subtopologies = [] if group.topology is None else group.topology.subtopologies or []
    return (name for subtopology in subtopologies for name in topics_of(subtopology))


def _described(group: StreamsGroup, description_status: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
        topology_description_status=description_status,
        assignor_name=_ASSIGNOR,
    )


def _topology(group: StreamsGroup) -> Topology | None:
    if group.configured is not None and group.configured.is_ready:
        return group.configured.described()
    return None if group.topology is None else group.topology.described()


def _offsets(offsets: Mapping[tuple[str, int], int]) -> list[TaskOffset]:
    return [TaskOffset(subtopology_id, partition, offset) for (subtopology_id, partition), offset in sorted(offsets.items())]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    report = group.reports.get(member.member_id, OffsetReport())
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.user_endpoint is None else Endpoint(*member.user_endpoint),
        client_tags=[KeyValue(key, value) for key, value in sorted(member.client_tags.items())],
        task_offsets=_offsets(report.offsets),
        task_end_offsets=_offsets(report.end_offsets),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target(member.member_id)),
    )


def _assignment(tasks: TaskSet) -> Assignment:
    active, standby, warmup = ([TaskIds(*one) for one in sorted_tasks(each)] for each in tasks.kinds())
    return Assignment(active, standby, warmup)

"""Describes a consumer group of the classic or the new protocol, or a streams group. Does not import the command line's libraries.

ConsumerGroupDescribe is sent first, and DescribeGroups if the group is a classic one, as in Kafka's admin client (KAFKA
DescribeConsumerGroupsHandler).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import AdminClient, ErrorResponse, NotServed, TopicPartition, name_of
from ottla.broker.groups.embedded_protocol import assigned_partitions
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.group_assignment import Assignment
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.k89_streams_group_describe import Assignment as TaskAssignment
from ottla.protocol.messages.k89_streams_group_describe import StreamsGroupDescribeRequest, Topology

CONSUMER_TYPES: Final = frozenset({"consumer", ""})
"""The protocol types of classic groups that can be described here: "consumer", and "" for groups that only commit offsets."""
INACTIVE: Final = frozenset({"Empty", "Dead"})
_IS_UPGRADED: Final = {0: False, 1: True}


class MemberDescribed(NamedTuple):
    """A group member. `epoch` and `target` (its target assignment) are set only in groups of the consumer protocol (KIP-848) and in streams
    groups. `upgraded` is set only in groups of the consumer protocol: False for a member that still uses the classic protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: list[TopicPartition]
    epoch: int | None = None
    target: tuple[TopicPartition, ...] = ()
    upgraded: bool | None = None


class GroupDescribed(NamedTuple):
    """The description of a consumer or streams group; both epochs are None for a group of the classic protocol."""

    group: str
    state: str
    assignor: str
    members: list[MemberDescribed]
    epoch: int | None = None
    assignment_epoch: int | None = None

    @property
    def owners(self) -> dict[TopicPartition, MemberDescribed]:
        """For each assigned partition: the member that it is assigned to."""
        return {place: member for member in self.members for place in member.assigned}


def described(cluster: AdminClient, group: str) -> GroupDescribed:
    """Return the description of a consumer group of the classic or the new protocol. Raises `CliError` if the group cannot be described;
    for a missing group, it is an `ErrorResponse` with GROUP_ID_NOT_FOUND."""
    try:
        found = cluster.coordinator(group, ConsumerGroupDescribeRequest([group])).groups[0]
    except NotServed:
        return _classic(cluster, group)
    if found.error_code in {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}:
        return _classic(cluster, group)
    _accepted(group, found)
    members = [
        _member(each, _places(each.assignment), _places(each.target_assignment))._replace(upgraded=_IS_UPGRADED.get(each.member_type))
        for each in found.members
    ]
    return GroupDescribed(group, found.group_state, found.assignor_name, members, found.group_epoch, found.assignment_epoch)


def described_with_offsets(cluster: AdminClient, group: str) -> GroupDescribed:
    """Return the description of a group that commits offsets: a consumer group or a streams group. Raises `CliError`, also if the group
    does not exist."""
    try:
        return described(cluster, group)
    except ErrorResponse as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        missing = error
    try:
        found = cluster.coordinator(group, StreamsGroupDescribeRequest([group])).groups[0]
    except NotServed:
        raise missing from None
    if found.error_code in {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}:
        raise missing
    _accepted(group, found)
    inputs = _inputs(cluster, found.topology)
    members = [_member(each, _read_by(each.assignment, inputs), _read_by(each.target_assignment, inputs)) for each in found.members]
    return GroupDescribed(group, found.group_state, "", members, found.group_epoch, found.assignment_epoch)


def _member(member: Any, assigned: list[TopicPartition], target: list[TopicPartition]) -> MemberDescribed:
    return MemberDescribed(
        member.member_id, member.instance_id, member.client_id, member.client_host, assigned, member.member_epoch, tuple(target)
    )


def _inputs(cluster: AdminClient, topology: Topology) -> dict[str, list[TopicPartition]]:
    """Return the existing partitions of the source and repartition topics that each subtopology of a Kafka Streams application reads, by
    subtopology id."""
    inputs = {
        one.subtopology_id: [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        for one in topology.subtopologies or ()
    }
    every = {topic.name: topic for topic in cluster.topics()}
    return {
        subtopology_id: [TopicPartition(name, one.partition_index) for name in names if name in every for one in every[name].partitions]
        for subtopology_id, names in inputs.items()
    }


def _read_by(assignment: TaskAssignment, inputs: dict[str, list[TopicPartition]]) -> list[TopicPartition]:
    """Return the input partitions that the active tasks of `assignment` read; `inputs` has the partitions of each subtopology."""
    tasks = {task.subtopology_id: set(task.partitions) for task in assignment.active_tasks}
    return [place for subtopology_id, numbers in tasks.items() for place in inputs[subtopology_id] if place.partition in numbers]


def _classic(cluster: AdminClient, group: str) -> GroupDescribed:
    found = cluster.coordinator(group, DescribeGroupsRequest([group])).groups[0]
    _accepted(group, found)
    if found.group_state == "Dead":  # versions before 6 of DescribeGroups answer this for a group that does not exist
        raise ErrorResponse(f"Group {group} not found.", ErrorCode.GROUP_ID_NOT_FOUND)
    if found.protocol_type not in CONSUMER_TYPES:
        raise CliError(f"GroupId {group} is not a consumer group ({found.protocol_type}).")
    members = [
        MemberDescribed(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            [TopicPartition(*place) for place in assigned_partitions(each.member_assignment)],
        )
        for each in found.members
    ]
    return GroupDescribed(group, found.group_state, found.protocol_data, members)


def _accepted(group: str, found: Any) -> None:
    if found.error_code != ErrorCode.NONE:
        raise ErrorResponse(found.error_message or f"group {group!r}: {name_of(found.error_code)}", found.error_code)


def _places(assignment: Assignment) -> list[TopicPartition]:
    return [TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions]

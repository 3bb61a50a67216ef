"""A consumer group of either protocol as its coordinator describes it; without the libraries of the command line.

A group of the consumer protocol (KIP-848) is not known to DescribeGroups, so that one is asked for second, as Kafka's admin client does
(KAFKA DescribeConsumerGroupsHandler).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import AdminClient, AnsweredError, NotServed, TopicPartition, name_of
from ottla.broker.groups.embedded_protocol import assigned_places
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k69_consumer_group_describe import Assignment, ConsumerGroupDescribeRequest

CONSUMER_TYPES: Final = frozenset({"consumer", ""})
"""The protocol types of the classic groups that are consumers', or that only commit."""
INACTIVE: Final = frozenset({"Empty", "Dead"})
_IS_UPGRADED: Final = {0: False, 1: True}


class MemberDescribed(NamedTuple):
    """One member; epoch, target and whether it speaks the new protocol are of groups of that one alone."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: list[TopicPartition]
    epoch: int | None = None
    target: tuple[TopicPartition, ...] = ()
    upgraded: bool | None = None


class GroupDescribed(NamedTuple):
    """A group; its epochs are None where it is of the classic protocol."""

    group: str
    state: str
    assignor: str
    members: list[MemberDescribed]
    epoch: int | None = None
    assignment_epoch: int | None = None

    @property
    def owners(self) -> dict[TopicPartition, MemberDescribed]:
        """Who reads each partition."""
        return {place: member for member in self.members for place in member.assigned}


def described(cluster: AdminClient, group: str) -> GroupDescribed:
    """Raises `CliError`: an `AnsweredError` of GROUP_ID_NOT_FOUND where there is no such group."""
    try:
        found = cluster.coordinator(group, ConsumerGroupDescribeRequest([group])).groups[0]
    except NotServed:
        return _classic(cluster, group)
    if found.error_code in {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}:
        return _classic(cluster, group)
    _accepted(group, found)
    members = [
        MemberDescribed(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _places(each.assignment),
            each.member_epoch,
            tuple(_places(each.target_assignment)),
            _IS_UPGRADED.get(each.member_type),
        )
        for each in found.members
    ]
    return GroupDescribed(group, found.group_state, found.assignor_name, members, found.group_epoch, found.assignment_epoch)


def _classic(cluster: AdminClient, group: str) -> GroupDescribed:
    found = cluster.coordinator(group, DescribeGroupsRequest([group])).groups[0]
    _accepted(group, found)
    if found.group_state == "Dead":  # which is how versions before 6 say it
        raise AnsweredError(f"Group {group} not found.", ErrorCode.GROUP_ID_NOT_FOUND)
    if found.protocol_type not in CONSUMER_TYPES:
        raise CliError(f"GroupId {group} is not a consumer group ({found.protocol_type}).")
    members = [
        MemberDescribed(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            [TopicPartition(*place) for place in assigned_places(each.member_assignment)],
        )
        for each in found.members
    ]
    return GroupDescribed(group, found.group_state, found.protocol_data, members)


def _accepted(group: str, found: Any) -> None:
    if found.error_code != ErrorCode.NONE:
        raise AnsweredError(found.error_message or f"group {group!r}: {name_of(found.error_code)}", found.error_code)


def _places(assignment: Assignment) -> list[TopicPartition]:
    return [TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions]

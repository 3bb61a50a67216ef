"""Describes a share group and its start offsets, and alters them. Does not import the command line's libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.broker.cli.cluster import AdminClient, ErrorResponse, NotServed, TopicPartition, name_of
from ottla.broker.cli.group_described import GroupDescribed, MemberDescribed
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k77_share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)

_ABSENT = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


class StartOffset(NamedTuple):
    """The offset from which a share group delivers a partition, and its lag. Both are None until the group's share state for the partition
    is initialized; the lag is also None if it is unknown."""

    offset: int | None
    lag: int | None


def described_share_group(cluster: AdminClient, group: str) -> GroupDescribed | None:
    """Return the description of a share group; None if there is no share group of this name. Raises `ErrorResponse` if the coordinator
    answers with another error."""
    try:
        found = cluster.coordinator(group, ShareGroupDescribeRequest([group])).groups[0]
    except NotServed:
        return None
    if found.error_code in _ABSENT:
        return None
    _accepted(group, found.error_code, found.error_message)
    members = [
        MemberDescribed(
            each.member_id,
            None,
            each.client_id,
            each.client_host,
            [TopicPartition(topic.topic_name, index) for topic in each.assignment.topic_partitions for index in topic.partitions],
            each.member_epoch,
        )
        for each in found.members
    ]
    return GroupDescribed(group, found.group_state, found.assignor_name, members, found.group_epoch, found.assignment_epoch)


def start_offsets(cluster: AdminClient, group: str) -> dict[TopicPartition, StartOffset]:
    """Return the start offset of each partition of a share group, by partition. Raises `ErrorResponse` if there is no such group, or the
    coordinator rejects the request."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, None)])
    found = cluster.coordinator(group, request).groups[0]
    _accepted(group, found.error_code, found.error_message)
    return {
        TopicPartition(topic.topic_name, part.partition_index): StartOffset(_known(part.start_offset), _known(part.lag))
        for topic in found.topics
        for part in topic.partitions
        if not part.error_code
    }


def alter_start_offsets(cluster: AdminClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set the start offsets of a share group without members. Raises `ErrorResponse` with the first error."""
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for place, offset in offsets.items():
        topics.setdefault(place.topic, []).append(AlterShareGroupOffsetsRequestPartition(place.partition, offset))
    request = AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(*topic) for topic in topics.items()])
    answer = cluster.coordinator(group, request)
    _accepted(group, answer.error_code, answer.error_message)
    for topic in answer.responses:
        for part in topic.partitions:
            _accepted(f"{topic.topic_name}-{part.partition_index}", part.error_code, part.error_message)


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _accepted(what: str, code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise ErrorResponse(message or f"{what}: {name_of(code)}", code)

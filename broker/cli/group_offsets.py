"""Reads and commits a group's offsets as an administrator. Does not import the command line's libraries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import AdminClient, TopicPartition, check
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

NO_OFFSET: Final = -1
LAST_VERSION_WITH_NAMES: Final = 9
"""The last version of OffsetCommit and OffsetFetch with topic names. Later ones have topic ids, and omit deleted topics."""


def committed_offsets(cluster: AdminClient, group: str) -> dict[TopicPartition, int]:
    """Return the group's committed offsets, by partition. Raises `CliError` if the group's coordinator rejects the request."""
    return {place: offset for place, (offset, _) in committed_positions(cluster, group).items()}


def committed_positions(cluster: AdminClient, group: str) -> dict[TopicPartition, tuple[int, int]]:
    """Return the group's committed offsets with their leader epochs (-1 if unknown), by partition. Raises `CliError` if the group's
    coordinator rejects the request."""
    whole = OffsetFetchRequestGroup(group_id=group, topics=None)
    answer: Any = cluster.coordinator(
        group, OffsetFetchRequest(group_id=group, topics=None, groups=[whole]), max_version=LAST_VERSION_WITH_NAMES
    )
    found = answer.groups[0] if answer.groups else answer
    check(found.error_code, f"offsets of group {group!r}")
    return {
        TopicPartition(topic.name, partition.partition_index): (partition.committed_offset, partition.committed_leader_epoch)
        for topic in found.topics
        for partition in topic.partitions
        if partition.committed_offset != NO_OFFSET
    }


def timestamp_ms(text: str) -> int:
    """Convert an ISO 8601 time, in UTC unless it names a zone, to Unix time in milliseconds. Raises `CliError` for any other text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CliError(f"{text!r} is neither earliest, latest, an offset nor a time such as 2026-01-31T12:00") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def commit(cluster: AdminClient, group: str, offsets: dict[TopicPartition, int]) -> None:
    """Commit the group's offsets as an administrator, that is, without member id and generation. Raises `CliError` if a commit is rejected,
    for instance because the group has members."""
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=place.partition, committed_offset=offset, committed_metadata="")
                for place, offset in offsets.items()
                if place.topic == name
            ],
        )
        for name in sorted({place.topic for place in offsets})
    ]
    answer = cluster.coordinator(group, OffsetCommitRequest(group_id=group, topics=topics), max_version=LAST_VERSION_WITH_NAMES)
    for topic in answer.topics:
        for partition in topic.partitions:
            check(partition.error_code, f"offset of {topic.name}-{partition.partition_index}")

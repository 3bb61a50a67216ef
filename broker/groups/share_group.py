"""A share group of KIP-932: its members, their assignments, and the share partitions whose state exists.

Invariants:

* A partition may be assigned to several members, and a member moves to its target assignment at once: nothing has to be revoked.
* Only partitions whose state the share coordinator has initialized are assigned. `partitions` has them, those that are being initialized,
  and the topics whose state is being deleted.

Source: Kafka's ShareGroup, ShareGroupMember, GroupMetadataManager.replay (ShareGroup*), KIP-932.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ottla.broker.groups.consumer_member import Assignment, MemberState, assignment_from, topics_of
from ottla.broker.groups.group_records import GroupRecord
from ottla.broker.groups.modern import FIRST_EPOCH, ModernState, SubscriptionGroup
from ottla.protocol import share_group_log as records
from ottla.protocol.share_group_log import DeletingTopic, ShareKey, ShareValue, TopicPartitionsInfo

SHARE_PROTOCOL_TYPE = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """One member of a share group, as an immutable value."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Assignment = field(default_factory=dict)


class SharedTopic(NamedTuple):
    """A topic's name, with a set of its partitions, for example those whose share state is being initialized."""

    name: str
    partitions: frozenset[int]


SharedTopics = Mapping[bytes, SharedTopic]
"""A set of share partitions: by topic id, the topic's name and the partition numbers."""


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """The share partitions of a group whose state the share coordinator is initializing (`initializing`) or has initialized
    (`initialized`). `deleting` has the names, by topic id, of topics whose state is being deleted.
    """

    initializing: SharedTopics = field(default_factory=dict)
    initialized: SharedTopics = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    def without(self, topic_id: bytes) -> StatePartitions:
        """Return these share partitions without those of the topic `topic_id`."""
        return StatePartitions(*(_without(topics, topic_id) for topics in (self.initializing, self.initialized, self.deleting)))


class ShareGroup(SubscriptionGroup[ShareMember]):
    """One share group: its members, their assignments, and the share partitions whose state exists."""

    PROTOCOL_TYPE = SHARE_PROTOCOL_TYPE

    def __init__(self, group_id: str, first_epoch: int = FIRST_EPOCH) -> None:
        super().__init__(group_id, first_epoch)
        self.partitions = StatePartitions()
        self.has_partitions_record = False

    @property
    def state(self) -> ModernState:
        return ModernState.STABLE if self.members else ModernState.EMPTY

    @property
    def lacks_assignment(self) -> bool:
        """Whether a subscribed topic has initialized partitions that are not all assigned (Kafka's initializedAssignmentPending)."""
        subscribed = self.subscribed_topics()
        assigned: dict[bytes, frozenset[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                assigned[topic_id] = assigned.get(topic_id, frozenset()) | partitions
        return any(
            topic.name in subscribed and assigned.get(topic_id) != topic.partitions
            for topic_id, topic in self.partitions.initialized.items()
        )

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstone records that delete the group. The group must have no members."""
        keys = (
            records.ShareGroupTargetAssignmentMetadataKey(self.group_id),
            records.ShareGroupStatePartitionMetadataKey(self.group_id),
            records.ShareGroupMetadataKey(self.group_id),
        )
        return [GroupRecord(key, None) for key in keys]

    # --- persistence ----------------------------------------------------------------------------------------------------------

    def apply(self, key: ShareKey, value: ShareValue | None) -> None:
        """Apply a record of this group to its state, live or while loading. After compaction any record may be missing."""
        match key:
            case records.ShareGroupMetadataKey():
                if isinstance(value, records.ShareGroupMetadataValue):
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case records.ShareGroupTargetAssignmentMetadataKey():
                if isinstance(value, records.ShareGroupTargetAssignmentMetadataValue):
                    self._apply_target_epoch(value.assignment_epoch, value.assignment_timestamp)
                else:
                    self._apply_target_epoch()
            case records.ShareGroupMemberMetadataKey():
                self._apply_metadata(key.member_id, value)
            case records.ShareGroupTargetAssignmentMemberKey():
                target = value.topic_partitions if isinstance(value, records.ShareGroupTargetAssignmentMemberValue) else None
                self._apply_target_topics(key.member_id, target)
            case records.ShareGroupCurrentMemberAssignmentKey():
                self._apply_assignment(key.member_id, value)
            case records.ShareGroupStatePartitionMetadataKey():
                self.has_partitions_record = isinstance(value, records.ShareGroupStatePartitionMetadataValue)
                self.partitions = _partitions_from(value) if self.has_partitions_record else StatePartitions()

    def _apply_metadata(self, member_id: str, value: ShareValue | None) -> None:
        if not isinstance(value, records.ShareGroupMemberMetadataValue):
            self.members.pop(member_id, None)
            return
        self._change(
            member_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
        )

    def _apply_assignment(self, member_id: str, value: ShareValue | None) -> None:
        """Apply the record of a member's current assignment. A tombstone leaves the member without partitions, because the tombstone of
        the member itself follows; for an unknown member it changes nothing."""
        if isinstance(value, records.ShareGroupCurrentMemberAssignmentValue):
            self._change(
                member_id,
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned=assignment_from(value.assigned_partitions),
            )
        elif member_id in self.members:
            self._change(member_id, epoch=-1, previous_epoch=-1, assigned={})

    def _change(self, member_id: str, **changes: Any) -> None:
        self.members[member_id] = replace(self.members.get(member_id) or ShareMember(member_id=member_id), **changes)


def metadata_of(member: ShareMember) -> records.ShareGroupMemberMetadataValue:
    """Return the value of the record (type 10) that stores the member's metadata."""
    return records.ShareGroupMemberMetadataValue(member.rack_id, member.client_id, member.client_host, sorted(member.topic_names))


def current_assignment_of(member: ShareMember) -> records.ShareGroupCurrentMemberAssignmentValue:
    """Return the value of the record (type 14) that stores the member's current assignment."""
    return records.ShareGroupCurrentMemberAssignmentValue(
        member.epoch, member.previous_epoch, MemberState.STABLE, topics_of(member.assigned)
    )


def record_of(partitions: StatePartitions) -> records.ShareGroupStatePartitionMetadataValue:
    """Return the value of the record (type 15) that stores which of the group's share partitions have state."""
    return records.ShareGroupStatePartitionMetadataValue(
        _infos(partitions.initializing),
        _infos(partitions.initialized),
        [DeletingTopic(topic_id, name) for topic_id, name in sorted(partitions.deleting.items())],
    )


def united(one: SharedTopics, other: SharedTopics) -> SharedTopics:
    """Return the union of two sets of share partitions. A topic in both has the name that it has in `one`."""
    found = dict(one)
    for topic_id, topic in other.items():
        known = found.get(topic_id)
        found[topic_id] = topic if known is None else SharedTopic(known.name, known.partitions | topic.partitions)
    return found


def subtracted(one: SharedTopics, other: Mapping[bytes, Iterable[int]]) -> SharedTopics:
    """Return the share partitions of `one` that are not in `other`; topics without remaining partitions are omitted."""
    left = {topic_id: topic._replace(partitions=topic.partitions - frozenset(other.get(topic_id, ()))) for topic_id, topic in one.items()}
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}


def _without(topics: Mapping[bytes, Any], topic_id: bytes) -> dict[bytes, Any]:
    return {known: topic for known, topic in topics.items() if known != topic_id}


def _infos(topics: SharedTopics) -> list[TopicPartitionsInfo]:
    return [TopicPartitionsInfo(topic_id, topic.name, sorted(topic.partitions)) for topic_id, topic in sorted(topics.items())]


def _partitions_from(value: ShareValue | None) -> StatePartitions:
    assert isinstance(value, records.ShareGroupStatePartitionMetadataValue)
    return StatePartitions(
        _topics_from(value.initializing_topics),
        _topics_from(value.initialized_topics),
        {bytes(topic.topic_id): topic.topic_name for topic in value.deleting_topics},
    )


def _topics_from(infos: Iterable[TopicPartitionsInfo]) -> SharedTopics:
    return {bytes(info.topic_id): SharedTopic(info.topic_name, frozenset(info.partitions)) for info in infos}

"""A consumer group of KIP-848: its members, their target assignments and their current assignments.

Invariants:

* Its epochs and its persistence follow the rules in `modern`. A member moves to the epoch of its target assignment step by step
  (`reconciliation`).
* A member holds a partition from its assignment until the member has confirmed the revocation or was removed. `is_free` tells whether no
  member holds a partition.

Source: Kafka's ConsumerGroup, ModernGroup, GroupMetadataManager.replay; KIP-848.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ottla.broker.groups.consumer_member import Assignment, ConsumerMember, fields_of_assignment, fields_of_metadata
from ottla.broker.groups.group_records import GroupRecord
from ottla.broker.groups.modern import FIRST_EPOCH, CommitPartition, OffsetsGroup, SubscriptionGroup
from ottla.protocol import consumer_group_log as records
from ottla.protocol.consumer_group_log import ConsumerKey, ConsumerValue
from ottla.protocol.error_codes import ErrorCode

CONSUMER_PROTOCOL_TYPE = "consumer"


class ConsumerGroup(SubscriptionGroup[ConsumerMember], OffsetsGroup[ConsumerMember, Assignment]):
    """One group of the consumer protocol, which may also have members of the classic protocol."""

    PROTOCOL_TYPE = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str, first_epoch: int = FIRST_EPOCH) -> None:
        super().__init__(group_id, first_epoch)
        self.resolved: dict[str, frozenset[str]] = {}
        """By regular expression, the names of the topics that it matched when it was last resolved."""
        self.resolved_ms = 0
        """When the regular expressions were last resolved, in wall clock ms; undefined while `resolved` is empty."""
        self.creation_version_at_resolution: int | None = None
        """The value of `TopicsView.creation_version`, which changes with each topic creation, when the regular expressions were last
        resolved; None if they were not resolved since the group was loaded.
        """
        self.has_partition_metadata_record = False
        """Whether the log has the group's partition metadata record (type 4). Only Kafka up to 4.0 writes this record; it must be deleted
        with the group.
        """
        self._regexes: dict[str, int] = {}
        self._holders: dict[tuple[bytes, int], str] = {}

    # --- queries --------------------------------------------------------------------------------------------------------------

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Return whether no member of the group holds the partition. A member holds the partitions that are assigned to it, and those whose
        revocation it has not confirmed yet.
        """
        return (topic_id, partition) not in self._holders

    def holder(self, topic_id: bytes, partition: int) -> str | None:
        """Return the id of the member that holds the partition (assigned or yet to be revoked), None if no member does."""
        return self._holders.get((topic_id, partition))

    def waits_for_release(self, member: ConsumerMember) -> bool:
        """Return whether the member waits for a partition: its target assignment has the partition, it is not assigned to the member yet,
        and a member still holds it (another one, or this one until it confirms the revocation).
        """
        return any(
            not self.is_free(topic_id, partition)
            for topic_id, partitions in self.target(member.member_id).items()
            for partition in partitions - member.assigned.get(topic_id, frozenset())
        )

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names of a member's subscribed topics, existing or not."""
        return member.topic_names | self.resolved.get(member.topic_regex, frozenset())

    @property
    def regexes(self) -> Collection[str]:
        """The regular expressions in the members' subscriptions, each once."""
        return self._regexes.keys()

    def subscribers_of_regex(self, regex: str) -> int:
        return self._regexes.get(regex, 0)

    def preferred_assignor(self, default: str) -> str:
        """Return the assignor that most members request; `default` if no member requests one. On a tie it is the last in alphabetical
        order, because Kafka's map of its two assignors yields that one first."""
        votes = Counter(member.server_assignor for member in self.members.values() if member.server_assignor is not None)
        return max(votes, key=lambda name: (votes[name], name), default=default)

    def supports_classic_protocols(self, protocol_type: str, names: set[str]) -> bool:
        """Return whether a classic protocol member can join: all other classic protocol members support one of the protocols `names`."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE or not names:
            return False
        offered = [{protocol.name for protocol in m.classic.protocols} for m in self.members.values() if m.classic is not None]
        return any(all(name in of for of in offered) for name in names)

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstone records that delete the group; the tombstone of the group's epoch is the last."""
        group_id = self.group_id
        keys: list[ConsumerKey] = []
        for member_id in sorted(self.members):
            keys.append(records.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id))
            keys.append(records.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id))
            keys.append(records.ConsumerGroupMemberMetadataKey(group_id, member_id))
        keys += [records.ConsumerGroupRegularExpressionKey(group_id, regex) for regex in sorted(self.resolved)]
        keys.append(records.ConsumerGroupTargetAssignmentMetadataKey(group_id))
        if self.has_partition_metadata_record:
            keys.append(records.ConsumerGroupPartitionMetadataKey(group_id))
        keys.append(records.ConsumerGroupMetadataKey(group_id))
        return [GroupRecord(key, None) for key in keys]

    def _held_in_epoch(self, member: ConsumerMember, partition: CommitPartition, epoch: int) -> bool:
        return member.epochs.get((partition.topic_id, partition.partition), epoch + 1) <= epoch

    def _sends_epochs(self, member: ConsumerMember) -> bool:
        return member.classic is None

    def _stale(self, member: ConsumerMember) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    # --- persistence ----------------------------------------------------------------------------------------------------------

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Apply a record of this group to its state, live or while loading. After compaction any record may be missing."""
        match key:
            case records.ConsumerGroupMetadataKey():
                if isinstance(value, records.ConsumerGroupMetadataValue):
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case records.ConsumerGroupPartitionMetadataKey():
                self.has_partition_metadata_record = value is not None
            case records.ConsumerGroupTargetAssignmentMetadataKey():
                if isinstance(value, records.ConsumerGroupTargetAssignmentMetadataValue):
                    self._apply_target_epoch(value.assignment_epoch, value.assignment_timestamp)
                else:
                    self._apply_target_epoch()
            case records.ConsumerGroupRegularExpressionKey():
                self._apply_regex(key.regular_expression, value)
            case records.ConsumerGroupMemberMetadataKey():
                self._apply_metadata(key.member_id, value)
            case records.ConsumerGroupTargetAssignmentMemberKey():
                target = value.topic_partitions if isinstance(value, records.ConsumerGroupTargetAssignmentMemberValue) else None
                self._apply_target_topics(key.member_id, target)
            case records.ConsumerGroupCurrentMemberAssignmentKey():
                self._apply_assignment(key.member_id, value)

    def _apply_regex(self, regex: str, value: ConsumerValue | None) -> None:
        if isinstance(value, records.ConsumerGroupRegularExpressionValue):
            self.resolved[regex], self.resolved_ms = frozenset(value.topics), value.timestamp
        else:
            self.resolved.pop(regex, None)

    def _apply_metadata(self, member_id: str, value: ConsumerValue | None) -> None:
        if isinstance(value, records.ConsumerGroupMemberMetadataValue):
            self._put(self._member_with(member_id, fields_of_metadata(value)))
            return
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self._count_regex(member, -1)
        self._remove_instance(member)

    def _apply_assignment(self, member_id: str, value: ConsumerValue | None) -> None:
        """Apply the record of a member's current assignment. A tombstone leaves the member without partitions, because the tombstone of the
        member itself follows; for an unknown member it changes nothing."""
        if isinstance(value, records.ConsumerGroupCurrentMemberAssignmentValue):
            self._put(self._member_with(member_id, fields_of_assignment(value)))
        elif member_id in self.members:
            self._put(replace(self.members[member_id], epoch=-1, previous_epoch=-1, assigned={}, pending_revocation={}, epochs={}))

    def _member_with(self, member_id: str, changes: dict[str, Any]) -> ConsumerMember:
        member = self.members.get(member_id)
        return ConsumerMember(member_id=member_id, **changes) if member is None else replace(member, **changes)

    def _put(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        if before is not None:
            self._release(before)
            self._remove_instance(before)
            self._count_regex(before, -1)
        self._count_regex(member, +1)
        self.members[member.member_id] = member
        self._enter_instance(member)
        for partition in member.held_partitions():
            self._holders[partition] = member.member_id

    def _count_regex(self, member: ConsumerMember, more: int) -> None:
        if member.topic_regex:
            self._regexes[member.topic_regex] = count = self._regexes.get(member.topic_regex, 0) + more
            if not count:
                del self._regexes[member.topic_regex]

    def _release(self, member: ConsumerMember) -> None:
        for partition in member.held_partitions():
            if self._holders.get(partition) == member.member_id:
                del self._holders[partition]

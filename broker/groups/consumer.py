"""A consumer group of KIP-848: members, what each is meant to have, and what each has.

Rules that hold here:

* All of it is persisted and changes only in `apply`, one record at a time; replaying the log gives the group that was. Timers and the
  version of the topics that was last looked at are not part of it (`deadlines`, `consumer_draft`).
* The group's epoch counts changes of membership, subscriptions and topics. The target assignment is computed for an epoch; each member
  then goes on to that epoch by itself (`reconciliation`).
* `is_free` says that no member holds a partition. A member holds what it was told to have until it has said that it let go, or is out.

Source of the rules: KAFKA ConsumerGroup, ModernGroup, GroupMetadataManager.replay; KIP-848.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Any

from ottla.broker.groups import consumer_records as records
from ottla.broker.groups.consumer_member import (
    Assignment,
    ConsumerMember,
    assignment_from,
    fields_of_assignment,
    fields_of_metadata,
)
from ottla.broker.groups.consumer_records import ConsumerKey, ConsumerValue
from ottla.protocol.error_codes import ErrorCode

NO_EPOCH = -1
FIRST_EPOCH = 1
"""Of a group that has no members yet, and of its target assignment of nothing (Kafka since 4.3)."""

CONSUMER_PROTOCOL_TYPE = "consumer"


class ConsumerState(StrEnum):
    """The names that the wire shows."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    """One group of the consumer protocol, in which members of the classic protocol may take part."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.protocol_type = CONSUMER_PROTOCOL_TYPE
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        """When the target assignment was computed, by the wall clock; 0: not known."""
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.resolved: dict[str, frozenset[str]] = {}
        """What each regular expression stood for when it was last resolved."""
        self.resolved_ms = 0
        """When that was, by the wall clock; without meaning while nothing is resolved."""
        self.resolved_created: int | None = None
        """`TopicsView.created` at the last resolution; None: not since the group was read back."""
        self.is_backed_by_4_0 = False
        """Whether Kafka 4.0 wrote a record of type 4, which has to go with the group."""
        self.topics_version: int | None = None
        """The version of the topics for which the group was last seen to be right; None: not since it was read back."""
        self._static: dict[str, str] = {}
        self._regexes: dict[str, int] = {}
        self._holders: dict[tuple[bytes, int], str] = {}

    # --- questions ------------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def uses_consumer_protocol(self) -> bool:
        return True

    @property
    def is_empty(self) -> bool:
        return not self.members

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self._static.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Whether no member holds the partition."""
        return (topic_id, partition) not in self._holders

    def holder(self, topic_id: bytes, partition: int) -> str | None:
        """The member that was told to have the partition and has not let go."""
        return self._holders.get((topic_id, partition))

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, {})

    def waits_for_release(self, member: ConsumerMember) -> bool:
        """Whether something that the member is meant to have is still held by another."""
        return any(
            not self.is_free(topic_id, partition)
            for topic_id, partitions in self.target(member.member_id).items()
            for partition in partitions - member.assigned.get(topic_id, frozenset())
        )

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Names of the topics that a member subscribes to, whether they exist or not."""
        return member.topic_names | self.resolved.get(member.topic_regex, frozenset())

    def subscribed_topics(self) -> frozenset[str]:
        """All members' topics together."""
        return frozenset().union(*(self.topics_of(member) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    @property
    def regexes(self) -> Collection[str]:
        """The regular expressions that members subscribe to."""
        return self._regexes.keys()

    def subscribers_of_regex(self, regex: str) -> int:
        return self._regexes.get(regex, 0)

    def preferred_assignor(self, default: str) -> str:
        """The one that most members ask for; of equals the first by name."""
        votes = Counter(member.server_assignor for member in self.members.values() if member.server_assignor is not None)
        return min(votes, key=lambda name: (-votes[name], name), default=default)

    def supports_classic_protocols(self, protocol_type: str, names: set[str]) -> bool:
        """Whether a member of the classic protocol could speak with all the others of that kind."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE or not names:
            return False
        offered = [{protocol.name for protocol in m.classic.protocols} for m in self.members.values() if m.classic is not None]
        return any(all(name in of for of in offered) for name in names)

    def offset_expiry_base(self, commit_timestamp_ms: int) -> int | None:
        """From when the retention of an offset counts; that of a topic which a member reads never expires (the caller asks)."""
        return commit_timestamp_ms

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Iterable[tuple[bytes, int]],
        *,
        transactional: bool,
        knows_epochs: bool,
    ) -> ErrorCode:
        """Whether these credentials may commit offsets of these partitions. `knows_epochs`: an OffsetCommit of version 9 or later.

        A transactional producer need not give any: it may know no more of the group than its id. A member that has gone on to a later epoch
        may commit with the one before what it had in that already (KIP-1251).
        """
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        if transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and member.classic is None and not knows_epochs:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch or (epoch < member.epoch and all(member.epochs.get(one, epoch + 1) <= epoch for one in partitions)):
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if transactional else _check_epoch(member, epoch)

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether these credentials may fetch offsets; nobody need give any."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _check_epoch(member, epoch)

    def copy(self) -> ConsumerGroup:
        """A group to try records on. Members are values and shared."""
        group = ConsumerGroup(self.group_id)
        for name, value in vars(self).items():
            setattr(group, name, value.copy() if isinstance(value, dict) else value)
        return group

    # --- persistence ----------------------------------------------------------------------------------------------------------

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Become what the record says, live or at start-up. Records may come as compaction left them: any of them may be missing."""
        match key:
            case records.ConsumerGroupMetadataKey():
                if isinstance(value, records.ConsumerGroupMetadataValue):
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case records.ConsumerGroupPartitionMetadataKey():
                self.is_backed_by_4_0 = value is not None
            case records.ConsumerGroupTargetAssignmentMetadataKey():
                self._apply_target_epoch(value)
            case records.ConsumerGroupRegularExpressionKey():
                self._apply_regex(key.regular_expression, value)
            case records.ConsumerGroupMemberMetadataKey():
                self._apply_metadata(key.member_id, value)
            case records.ConsumerGroupTargetAssignmentMemberKey():
                self._apply_target(key.member_id, value)
            case records.ConsumerGroupCurrentMemberAssignmentKey():
                self._apply_assignment(key.member_id, value)

    def _apply_target_epoch(self, value: ConsumerValue | None) -> None:
        if isinstance(value, records.ConsumerGroupTargetAssignmentMetadataValue):
            self.assignment_epoch, self.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp
        else:
            self.assignment_epoch, self.assignment_timestamp_ms = NO_EPOCH, 0

    def _apply_regex(self, regex: str, value: ConsumerValue | None) -> None:
        if isinstance(value, records.ConsumerGroupRegularExpressionValue):
            self.resolved[regex], self.resolved_ms = frozenset(value.topics), value.timestamp
        else:
            self.resolved.pop(regex, None)

    def _apply_target(self, member_id: str, value: ConsumerValue | None) -> None:
        if isinstance(value, records.ConsumerGroupTargetAssignmentMemberValue):
            self.targets[member_id] = assignment_from(value.topic_partitions)
        else:
            self.targets.pop(member_id, None)

    def _apply_metadata(self, member_id: str, value: ConsumerValue | None) -> None:
        if isinstance(value, records.ConsumerGroupMemberMetadataValue):
            self._put(self._member_with(member_id, fields_of_metadata(value)))
            return
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self._count_regex(member, -1)
        if member.instance_id is not None and self._static.get(member.instance_id) == member_id:
            del self._static[member.instance_id]

    def _apply_assignment(self, member_id: str, value: ConsumerValue | None) -> None:
        """A tombstone comes before that of the member itself; one for a member that is not there changes nothing."""
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
            self._count_regex(before, -1)
        self._count_regex(member, +1)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        for partition in member.owned():
            self._holders[partition] = member.member_id

    def _count_regex(self, member: ConsumerMember, more: int) -> None:
        if member.topic_regex:
            self._regexes[member.topic_regex] = count = self._regexes.get(member.topic_regex, 0) + more
            if not count:
                del self._regexes[member.topic_regex]

    def _release(self, member: ConsumerMember) -> None:
        for partition in member.owned():
            if self._holders.get(partition) == member.member_id:
                del self._holders[partition]


def _check_epoch(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

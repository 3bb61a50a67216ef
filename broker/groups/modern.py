"""The state that consumer groups, share groups and streams groups have in common (Kafka's ModernGroup, StreamsGroup).

Invariants:

* The state is persisted and changes only in `apply`, one record at a time; a replay of the log restores it. Timers and the last processed
  version of the topics are not part of it (`deadlines`, `group_update`).
* The group's epoch counts changes of members, subscriptions and topics. The target assignment is computed for an epoch; each member then
  moves to that epoch by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer_member import Assignment, assignment_from
from ottla.broker.groups.group_records import GroupRecord
from ottla.protocol.consumer_group_log import AssignedTopic
from ottla.protocol.error_codes import ErrorCode

NO_EPOCH = -1
FIRST_EPOCH = 1
"""The epoch of a new group without members, and of its empty target assignment (Kafka since 4.3; before, both were 0)."""


class ModernState(StrEnum):
    """A group's state, with its name on the wire. A share group is only EMPTY, STABLE or DEAD. Only a streams group is NOT_READY, while
    topics of its topology are missing or have wrong numbers of partitions."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ModernMember(Protocol):
    """A member of a consumer, share or streams group."""

    @property
    def member_id(self) -> str: ...


class SubscribedMember(ModernMember, Protocol):
    """A member that subscribes to topics: of a consumer or a share group. (In a streams group the topology names the topics.)"""

    @property
    def topic_names(self) -> frozenset[str]: ...


class ReconciledMember(ModernMember, Protocol):
    """A member of a consumer or streams group, which moves to its target assignment step by step. A static member has an instance id."""

    @property
    def instance_id(self) -> str | None: ...
    @property
    def epoch(self) -> int: ...
    def is_reconciled_to(self, target_epoch: int) -> bool: ...


class CommitPartition(NamedTuple):
    """A partition, by topic name, id and number, for which an offset is committed."""

    topic: str
    topic_id: bytes
    partition: int


MemberT = TypeVar("MemberT", bound=ModernMember)
SubscribedT = TypeVar("SubscribedT", bound=SubscribedMember)
ReconciledT = TypeVar("ReconciledT", bound=ReconciledMember)
TargetT = TypeVar("TargetT")


class ModernGroup(ABC, Generic[MemberT, TargetT]):
    """A consumer, share or streams group, to whose members the coordinator assigns partitions or tasks."""

    PROTOCOL_TYPE: ClassVar[str]

    def __init__(self, group_id: str, first_epoch: int = FIRST_EPOCH) -> None:
        self.group_id = group_id
        self.epoch = first_epoch
        self.metadata_hash = 0
        self.assignment_epoch = first_epoch
        self.assignment_timestamp_ms = 0
        """When the target assignment was computed, in wall clock ms; 0: unknown."""
        self.members: dict[str, MemberT] = {}
        self.targets: dict[str, TargetT] = {}
        self.topics_version: int | None = None
        """The value of `TopicsView.version` when the group last compared its topics' metadata; None if it has not done so since it was
        loaded.
        """

    @property
    def protocol_type(self) -> str:
        return self.PROTOCOL_TYPE

    @property
    @abstractmethod
    def state(self) -> ModernState: ...

    @property
    def is_empty(self) -> bool:
        return not self.members

    def existing_member(self, member_id: str) -> MemberT:
        """Return the member with this id. Raises Rejected(UNKNOWN_MEMBER_ID) if there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise Rejected(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    @abstractmethod
    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of all topics that the group reads, existing or not."""

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def copy(self) -> Self:
        """Return a copy of the group, to which an update applies its records. Both share the members, which are immutable."""
        group = type(self)(self.group_id)
        for name, value in vars(self).items():
            setattr(group, name, value.copy() if isinstance(value, dict) else value)
        return group

    @abstractmethod
    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstone records that delete the group."""

    # --- persistence ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def apply(self, key: Any, value: Any) -> None:
        """Apply a record of this group to its state, live or while loading. After compaction any record may be missing."""

    def _apply_target_epoch(self, epoch: int = NO_EPOCH, timestamp_ms: int = 0) -> None:
        self.assignment_epoch, self.assignment_timestamp_ms = epoch, timestamp_ms

    def _apply_target(self, member_id: str, target: TargetT | None) -> None:
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target


class SubscriptionGroup(ModernGroup[SubscribedT, Assignment]):
    """A group whose members subscribe to topics and are assigned partitions of them: a consumer group or a share group."""

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, {})

    def topics_of(self, member: SubscribedT) -> frozenset[str]:
        """Return the names of a member's subscribed topics, existing or not."""
        return member.topic_names

    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of all topics that a member subscribes to, existing or not."""
        return frozenset().union(*(self.topics_of(member) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    def _apply_target_topics(self, member_id: str, topics: Iterable[AssignedTopic] | None) -> None:
        self._apply_target(member_id, None if topics is None else assignment_from(topics))


class OffsetsGroup(ModernGroup[ReconciledT, TargetT]):
    """A group that commits offsets, and in which a partition has at most one owner: a consumer group or a streams group."""

    def __init__(self, group_id: str, first_epoch: int = FIRST_EPOCH) -> None:
        super().__init__(group_id, first_epoch)
        self._static: dict[str, str] = {}
        """The ids of static members by instance id."""

    @property
    def uses_consumer_protocol(self) -> bool:
        """True for every group of this kind, so that OffsetDelete may delete the offsets of topics that no member subscribes to, even while
        the group has members. (In a classic group this requires the protocol type `consumer`.)
        """
        return True

    @property
    def state(self) -> ModernState:
        if not self.members:
            return ModernState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ModernState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ModernState.STABLE
        return ModernState.RECONCILING

    def static_member(self, instance_id: str | None) -> ReconciledT | None:
        member_id = None if instance_id is None else self._static.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def existing_member(self, member_id: str, instance_id: str | None = None) -> ReconciledT:
        """Return the member with this id. Raises Rejected: UNKNOWN_MEMBER_ID if the group has no such member or instance id,
        FENCED_INSTANCE_ID if another member has the instance id."""
        if instance_id is None:
            return super().existing_member(member_id)
        member = self.static_member(instance_id)
        if member is None:
            raise Rejected(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise Rejected(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
            )
        return member

    def _enter_instance(self, member: ReconciledT) -> None:
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id

    def _remove_instance(self, member: ReconciledT) -> None:
        if member.instance_id is not None and self._static.get(member.instance_id) == member.member_id:
            del self._static[member.instance_id]

    def offset_expiry_base(self, commit_timestamp_ms: int) -> int | None:
        """Return the time in wall clock ms from which an offset's retention is counted, which is the commit's time. The caller ensures that
        offsets of subscribed topics do not expire."""
        return commit_timestamp_ms

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Iterable[CommitPartition] | None,
        *,
        transactional: bool,
        knows_epochs: bool,
    ) -> ErrorCode:
        """Return NONE if a member with this id, instance id and epoch may commit offsets of these partitions, otherwise the error.
        `knows_epochs` is true for OffsetCommit from version 9 and TxnOffsetCommit from version 6 on.

        A transactional producer may send neither member id nor epoch, because it may know only the group id. A member may commit with an
        older epoch than its own for partitions that it already had in that epoch (KIP-1251). If `partitions` is None, it must use its own
        epoch, as before Kafka 4.3.
        """
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        if transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and not knows_epochs and self._sends_epochs(member):
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch or (
            epoch < member.epoch
            and partitions is not None
            and all(self._held_in_epoch(member, partition, epoch) for partition in partitions)
        ):
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if transactional and not knows_epochs else self._stale(member)

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Return NONE if the group has this member with this epoch, so that it may fetch offsets, otherwise the error. NONE, too, if the
        request has neither (None and -1)."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else self._stale(member)

    @abstractmethod
    def _held_in_epoch(self, member: ReconciledT, partition: CommitPartition, epoch: int) -> bool:
        """Return whether the member has had the partition since the group epoch `epoch` or an earlier one."""

    def _sends_epochs(self, member: ReconciledT) -> bool:
        """Return whether the member's offset commits have a member epoch (consumer or streams protocol), not the generation of the classic
        protocol."""
        return True

    def _stale(self, member: ReconciledT) -> ErrorCode:
        """Return the error code for a member's request with a wrong member epoch, which depends on the member's protocol."""
        return ErrorCode.STALE_MEMBER_EPOCH

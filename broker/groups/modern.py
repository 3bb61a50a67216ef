"""What the members and assignments of consumer groups and share groups have in common (Kafka's ModernGroup).

Invariants:

* The state is persisted and changes only in `apply`, one record at a time; a replay of the log restores it. Timers and the last processed
  version of the topics are not part of it (`deadlines`, `modern_draft`).
* The group's epoch counts changes of members, subscriptions and topics. The target assignment is computed for an epoch; each member then
  moves to that epoch by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from ottla.broker.groups.consumer_member import Assignment, assignment_from
from ottla.broker.groups.consumer_records import AssignedTopic

NO_EPOCH = -1
FIRST_EPOCH = 1
"""The epoch of a new group without members, and of its empty target assignment (Kafka since 4.3)."""


class ModernState(StrEnum):
    """A group's state, with its name on the wire. A share group is empty, stable or dead."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ModernMember(Protocol):
    """A member as its group sees it."""

    @property
    def member_id(self) -> str: ...
    @property
    def topic_names(self) -> frozenset[str]: ...


MemberT = TypeVar("MemberT", bound=ModernMember)


class ModernGroup(ABC, Generic[MemberT]):
    """One group whose members the coordinator assigns partitions to."""

    PROTOCOL_TYPE: ClassVar[str]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        """When the target assignment was computed, in wall clock ms; 0: unknown."""
        self.members: dict[str, MemberT] = {}
        self.targets: dict[str, Assignment] = {}
        self.topics_version: int | None = None
        """The version of the topics at the group's last check; None: none since the group was loaded."""

    @property
    def protocol_type(self) -> str:
        return self.PROTOCOL_TYPE

    @property
    @abstractmethod
    def state(self) -> ModernState: ...

    @property
    def is_empty(self) -> bool:
        return not self.members

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, {})

    def topics_of(self, member: MemberT) -> frozenset[str]:
        """Return the names of a member's subscribed topics, existing or not."""
        return member.topic_names

    def subscribed_topics(self) -> frozenset[str]:
        """Return the union of all members' topics."""
        return frozenset().union(*(self.topics_of(member) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    def copy(self) -> Self:
        """Return a copy to try records on. Members are immutable and shared."""
        group = type(self)(self.group_id)
        for name, value in vars(self).items():
            setattr(group, name, value.copy() if isinstance(value, dict) else value)
        return group

    # --- persistence ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def apply(self, key: Any, value: Any) -> None:
        """Apply a record of the group's kind, live or while loading. After compaction any record may be missing."""

    def _apply_target_epoch(self, epoch: int = NO_EPOCH, timestamp_ms: int = 0) -> None:
        self.assignment_epoch, self.assignment_timestamp_ms = epoch, timestamp_ms

    def _apply_target(self, member_id: str, topics: Iterable[AssignedTopic] | None) -> None:
        if topics is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = assignment_from(topics)

"""Decides the changes of a consumer, share or streams group, by applying each record to a copy before it is written.

Invariants:

* An update (`GroupUpdate`, one operation) has a copy of the group, which only `put` changes. The group itself changes only when the records
  are in the log, by the same records in the same order. An update without changes makes no copy.
* Every change that can affect other members' assignments (members, subscriptions, topics) bumps the group's epoch. The next heartbeat of
  any member computes the target assignment for the new epoch, at least `assignment_interval_ms` after the last computation.
* Deadlines are set while deciding (`deadlines` explains why that is safe).

Source: Kafka's GroupMetadataManager.consumerGroupHeartbeat, shareGroupHeartbeat, streamsGroupHeartbeat and the methods that they call,
TargetAssignmentBuilder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from ottla.broker.groups.deadlines import DeadlineKind, Deadlines
from ottla.broker.groups.group_records import GroupMetadataKey, GroupRecord, Key, Value
from ottla.broker.groups.modern import ModernGroup, SubscriptionGroup
from ottla.broker.groups.results import Reply
from ottla.broker.groups.states import Now
from ottla.broker.groups.topics_view import TopicInfo, TopicsView, hash_of


class RecordClasses(NamedTuple):
    """Functions (or classes) that make the keys and values of the records that consumer, share and streams groups have in common; there is
    one instance for each of these three kinds. For example, `epoch_key` returns the key of the epoch record for a group id, and `target`
    the value of a member's target assignment record."""

    epoch_key: Callable[[str], Key]
    member_key: Callable[[str, str], Key]
    target_epoch_key: Callable[[str], Key]
    target_epoch: Callable[[int, int], Value]
    target_key: Callable[[str, str], Key]
    target: Callable[[Any], Value]
    assignment_key: Callable[[str, str], Key]


class ModernConfig(Protocol):
    """The settings that consumer, share and streams groups have in common."""

    @property
    def session_timeout_ms(self) -> int: ...
    @property
    def assignment_interval_ms(self) -> int: ...
    @property
    def delays_assignments(self) -> bool:
        """Whether the broker behaves like Kafka 4.3 or later, which waits for an interval between two target assignments of a group, and
        begins a new group with epoch 1. Before, a new group began with epoch 0 (a streams group always with 1)."""
        ...

    @property
    def assigns_empty(self) -> bool:
        """Whether the target assignment of a group that becomes empty gets the group's new epoch at once, as in Kafka since 4.4."""
        ...


GroupT = TypeVar("GroupT", bound=ModernGroup[Any, Any])
SubscriptionT = TypeVar("SubscriptionT", bound=SubscriptionGroup[Any])
ConfigT = TypeVar("ConfigT", bound=ModernConfig)


class GroupUpdate(ABC, Generic[GroupT, ConfigT]):
    """One operation on a group, which decides changes without applying them to the original group. `records` are the records to write, and
    `replies` the responses to send. `group` is a copy of the group to which the records are applied; it is the original as long as there
    are no records."""

    CLASSES: ClassVar[RecordClasses]

    def __init__(self, group: GroupT, deadlines: Deadlines, topics: TopicsView, config: ConfigT, now: Now) -> None:
        self.group = group
        self.deadlines = deadlines
        self.topics = topics
        self.config = config
        self.now = now
        self.records: list[GroupRecord] = []
        self.replies: list[Reply] = []
        self._original = group

    @property
    def group_id(self) -> str:
        return self.group.group_id

    # --- records --------------------------------------------------------------------------------------------------------------

    def put(self, key: Key, value: Value | None) -> None:
        """Add a record to those that this operation writes, and apply it to this operation's copy of the group. A `value` of None makes it
        a tombstone."""
        if self.group is self._original:
            self.group = self._original.copy()
        self.records.append(GroupRecord(key, value))
        self.group.apply(key, value)

    def end_classic_group(self) -> None:
        """Add the tombstone of the classic group with the same id to the records that this operation writes."""
        self.records.append(GroupRecord(GroupMetadataKey(self.group_id), None))

    def put_target(self, member_id: str, target: Any) -> None:
        """Add the record of a member's target assignment to the records that this operation writes."""
        self.put(self.CLASSES.target_key(self.group_id, member_id), self.CLASSES.target(target))

    def put_target_epoch(self, epoch: int) -> None:
        """Add the record of the target assignment's epoch and time to the records that this operation writes: the assignment was computed
        now, for the group epoch `epoch`.
        """
        self._put_target_epoch(epoch, self.now.wall_ms)

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.put(self.CLASSES.epoch_key(self.group_id), self.epoch_value(epoch, metadata_hash))

    @abstractmethod
    def epoch_value(self, epoch: int, metadata_hash: int) -> Value:
        """Return the value of the record that stores the group's epoch and metadata hash."""

    def remove_member(self, member_id: str) -> None:
        """Add tombstones for all records of a member to the records that this operation writes. Other members can then get its partitions
        or tasks."""
        self.put(self.CLASSES.assignment_key(self.group_id, member_id), None)
        self.put(self.CLASSES.target_key(self.group_id, member_id), None)
        self.put(self.CLASSES.member_key(self.group_id, member_id), None)

    # --- consequences of a change ---------------------------------------------------------------------------------------------

    def bump_after_leave(self) -> None:
        """Bump the group epoch after members were removed, so that a later heartbeat assigns their partitions to the others."""
        self.put_epoch(self.group.epoch + 1, self.metadata_hash())
        self._assign_empty()

    def _assign_empty(self) -> None:
        if self.config.assigns_empty and not self.group.members:
            self._put_target_epoch(self.group.epoch, 0)

    @property
    def next_epoch(self) -> int:
        """The epoch that the target assignment will have after `maybe_compute_target`: the group epoch if the assignment interval since the
        last computation has passed, otherwise the present target's epoch."""
        group, interval_ms = self.group, self.config.assignment_interval_ms
        computed_ms = group.assignment_timestamp_ms
        waits = bool(computed_ms and interval_ms) and self.now.wall_ms < computed_ms + interval_ms
        return group.assignment_epoch if waits else max(group.epoch, group.assignment_epoch)

    def maybe_compute_target(self) -> None:
        """Compute the target assignment for the group epoch, if the present target is for an older epoch and the assignment interval since
        its computation has passed. A member's target is written only if it has changed.
        """
        if self.next_epoch == self.group.assignment_epoch:
            return
        epoch = self.group.epoch
        for member_id, target in sorted(self.assign().items()):
            if member_id not in self.group.targets or self.group.targets[member_id] != target:
                self.put_target(member_id, target)
        self.put_target_epoch(epoch)

    @abstractmethod
    def assign(self) -> Mapping[str, Any]:
        """Compute and return the target assignment of each member, by member id."""

    def start_session(self, member_id: str, timeout_ms: int) -> None:
        """Start or restart the member's session timeout, in ms."""
        self.deadlines.set(DeadlineKind.SESSION, member_id, self.now.mono_ms + timeout_ms)

    def metadata_hash(self) -> int:
        """Return Kafka's hash of the present metadata of the subscribed topics (`topics_view.hash_of`)."""
        infos = (self.topics.by_name(name) for name in self.group.subscribed_topics())
        return hash_of(info for info in infos if info is not None)

    def _put_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        self.put(self.CLASSES.target_epoch_key(self.group_id), self.CLASSES.target_epoch(epoch, timestamp_ms))


class SubscriptionGroupUpdate(GroupUpdate[SubscriptionT, ConfigT]):
    """An operation on a consumer group or a share group, whose members subscribe to topics."""

    def refresh(self, *, subscriptions_changed: bool) -> None:
        """Bump the group epoch if `subscriptions_changed`, or if the metadata of the subscribed topics has changed since the last
        update."""
        if not subscriptions_changed and self.group.topics_version == self.topics.version:
            return
        metadata_hash = self.metadata_hash()
        if subscriptions_changed or metadata_hash != self.group.metadata_hash:
            self.put_epoch(self.group.epoch + 1, metadata_hash)
        elif not self.records:
            self._original.topics_version = self.topics.version

    def known_topics(self) -> dict[str, TopicInfo]:
        """Return the subscribed topics that exist, by name."""
        return {name: info for name in self.group.subscribed_topics() if (info := self.topics.by_name(name)) is not None}

    def topic_ids_of(self, topics: frozenset[str], known: Mapping[str, TopicInfo]) -> frozenset[bytes]:
        """Return the ids of those topics in `topics`, a set of names, that `known` contains."""
        return frozenset(known[name].topic_id for name in topics if name in known)

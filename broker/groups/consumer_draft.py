"""Decides the changes of a consumer group, by applying each record to a copy before it is written.

Invariants:

* A `Draft` reads like the group and changes only by `put`. The group itself changes only when the records are in the log, by the same
  records in the same order. A draft without changes makes no copy.
* Every change that can affect other members' assignments (members, subscriptions, topics) bumps the group's epoch. The next heartbeat of
  any member computes the target assignment for it, at least `assignment_interval_ms` after the last one.
* Deadlines are set while deciding (`deadlines` explains why that is safe).

Source: Kafka's GroupMetadataManager.consumerGroupHeartbeat and the methods that it calls, TargetAssignmentBuilder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ottla.broker.groups import consumer_records as records
from ottla.broker.groups.answers import Reply
from ottla.broker.groups.assignors import ASSIGNORS, RANGE, UNIFORM, Subscriber
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_member import Assignment, ConsumerMember, MemberState, current_assignment_of, metadata_of, topics_of
from ottla.broker.groups.consumer_records import ConsumerKey, ConsumerValue
from ottla.broker.groups.deadlines import DeadlineKind, Deadlines
from ottla.broker.groups.group_records import GroupMetadataKey, GroupRecord
from ottla.broker.groups.reconciliation import Target, reconcile
from ottla.broker.groups.regexes import RegexChange, Resolution, is_due
from ottla.broker.groups.states import Now
from ottla.broker.groups.topics_view import MayDescribe, TopicsView, check_regex, hash_of


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """The settings of consumer groups, under Kafka's names without `group.consumer.`, in ms. The first assignor is the default.
    `classic_max_size` limits the members of a group that is converted to a classic one."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = (UNIFORM, RANGE)
    allows_upgrade: bool = True
    allows_downgrade: bool = True
    classic_max_size: int = 2**31 - 1
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000

    @property
    def allows_classic_members(self) -> bool:
        """Whether a classic protocol member may join a group that has members."""
        return self.allows_upgrade or self.allows_downgrade


class Draft:
    """One operation under way. `downgraded` is set if its records make the group a classic one: whether that must rebalance."""

    def __init__(self, group: ConsumerGroup, deadlines: Deadlines, topics: TopicsView, config: ConsumerConfig, now: Now) -> None:
        self.group = group
        self.deadlines = deadlines
        self.topics = topics
        self.config = config
        self.now = now
        self.records: list[GroupRecord] = []
        self.replies: list[Reply] = []
        self.downgraded: bool | None = None
        self.resolution: Resolution | None = None
        """A resolution of the group's regular expressions that is due."""
        self._original = group

    @property
    def group_id(self) -> str:
        return self.group.group_id

    # --- records --------------------------------------------------------------------------------------------------------------

    def put(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Decide on a record and apply it to the draft's group."""
        if self.group is self._original:
            self.group = self._original.copy()
        self.records.append(GroupRecord(key, value))
        self.group.apply(key, value)

    def end_classic_group(self) -> None:
        """Delete the classic group with the same id."""
        self.records.append(GroupRecord(GroupMetadataKey(self.group_id), None))

    def put_member(self, member: ConsumerMember) -> None:
        """Write a member's metadata, if it has changed."""
        before = self.group.members.get(member.member_id)
        if before is None or metadata_of(before) != metadata_of(member):
            self.put(records.ConsumerGroupMemberMetadataKey(self.group_id, member.member_id), metadata_of(member))

    def put_assignment(self, member: ConsumerMember) -> None:
        """Write a member's current assignment."""
        self.put(records.ConsumerGroupCurrentMemberAssignmentKey(self.group_id, member.member_id), current_assignment_of(member))

    def put_target(self, member_id: str, target: Assignment) -> None:
        """Write a member's target assignment."""
        value = records.ConsumerGroupTargetAssignmentMemberValue(topics_of(target))
        self.put(records.ConsumerGroupTargetAssignmentMemberKey(self.group_id, member_id), value)

    def put_target_epoch(self, epoch: int) -> None:
        """Write the epoch that the target assignment was computed for, now."""
        self._put_target_epoch(epoch, self.now.wall_ms)

    def put_unknown_target_epoch(self, epoch: int) -> None:
        """Write the epoch of a target assignment that was not computed here, so that the next one may follow at once."""
        self._put_target_epoch(epoch, 0)

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.put(records.ConsumerGroupMetadataKey(self.group_id), records.ConsumerGroupMetadataValue(epoch, metadata_hash))

    def remove_member(self, member_id: str) -> None:
        """Remove a member; its partitions become free."""
        self.put(records.ConsumerGroupCurrentMemberAssignmentKey(self.group_id, member_id), None)
        self.put(records.ConsumerGroupTargetAssignmentMemberKey(self.group_id, member_id), None)
        self.put(records.ConsumerGroupMemberMetadataKey(self.group_id, member_id), None)

    def replace_member(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Give a static member that returns under a new id its former target and current assignment."""
        member = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        target = self.group.target(old.member_id)
        self.remove_member(old.member_id)
        self.put_member(member)
        self.put_target(member_id, target)
        self.put_assignment(member)
        return self.group.members[member_id]

    # --- consequences of a change ---------------------------------------------------------------------------------------------

    def change_member(self, before: ConsumerMember, after: ConsumerMember, may_describe: MayDescribe) -> bool:
        """Write the member, bump the epoch if the member or the topics require it, and plan a resolution of regular expressions if one is
        due.

        Return whether the member's subscription has changed. Raises Rejected(INVALID_REGULAR_EXPRESSION). Source: Kafka's
        hasMemberSubscriptionChanged, maybeUpdateRegularExpressions, updateSubscriptionMetadata.
        """
        names_changed = after.topic_names != before.topic_names
        regex, is_new = RegexChange.NONE, False
        if after.topic_regex != before.topic_regex:
            is_new = bool(after.topic_regex) and not self.group.subscribers_of_regex(after.topic_regex)
            if is_new:
                check_regex(after.topic_regex)
            is_known = not after.topic_regex or after.topic_regex in self.group.resolved
            regex = RegexChange.RESOLVED if is_known and not is_new else RegexChange.UNRESOLVED
        self.put_member(after)
        if regex is not RegexChange.NONE:
            self._forget_unused_regexes()
        if is_due(self.group, self.topics, self.now.wall_ms, self.config.regex_refresh_interval_ms, is_new=is_new):
            self.resolution = Resolution(self.group_id, tuple(sorted(self.group.regexes)), may_describe)
        self._refresh(subscriptions_changed=names_changed or regex is RegexChange.RESOLVED)
        return names_changed or regex is not RegexChange.NONE

    def put_resolved(self, resolution: Resolution) -> None:
        """Write the resolved topics of the regular expressions, and bump the epoch if they have changed."""
        changed = False
        for regex, topics in sorted(resolution.found.items()):
            if self.group.subscribers_of_regex(regex):
                changed = changed or self.group.resolved.get(regex, frozenset()) != topics
                value = records.ConsumerGroupRegularExpressionValue(sorted(topics), self.topics.version, resolution.began_ms)
                self.put(records.ConsumerGroupRegularExpressionKey(self.group_id, regex), value)
        metadata_hash = self.metadata_hash()
        if changed or metadata_hash != self.group.metadata_hash:
            self.put_epoch(self.group.epoch + 1, metadata_hash)

    def _refresh(self, *, subscriptions_changed: bool) -> None:
        """Bump the epoch if the subscriptions or the metadata of the subscribed topics have changed."""
        if not subscriptions_changed and self.group.topics_version == self.topics.version:
            return
        metadata_hash = self.metadata_hash()
        if subscriptions_changed or metadata_hash != self.group.metadata_hash:
            self.put_epoch(self.group.epoch + 1, metadata_hash)
        elif not self.records:
            self._original.topics_version = self.topics.version

    def bump_after_leave(self) -> None:
        """Bump the epoch after a removal: the others share its partitions at their next heartbeats."""
        self._forget_unused_regexes()
        self.put_epoch(self.group.epoch + 1, self.metadata_hash())

    @property
    def next_epoch(self) -> int:
        """The epoch of the current target assignment, or of the one that may be computed now."""
        group, interval_ms = self.group, self.config.assignment_interval_ms
        computed_ms = group.assignment_timestamp_ms
        waits = bool(computed_ms and interval_ms) and self.now.wall_ms < computed_ms + interval_ms
        return group.assignment_epoch if waits else max(group.epoch, group.assignment_epoch)

    def update_target(self) -> None:
        """Compute the target assignment for the group's epoch if it is missing and due; only changes are written."""
        group = self.group
        if self.next_epoch == group.assignment_epoch:
            return
        known = {name: info for name in group.subscribed_topics() if (info := self.topics.by_name(name)) is not None}
        subscribers = {
            member_id: Subscriber(
                frozenset(known[name].topic_id for name in group.topics_of(member) if name in known),
                member.instance_id,
                group.target(member_id),
            )
            for member_id, member in group.members.items()
        }
        assign = ASSIGNORS[group.preferred_assignor(self.config.assignors[0])]
        targets = assign(subscribers, {info.topic_id: info.partitions for info in known.values()})
        epoch = group.epoch
        for member_id, target in sorted(targets.items()):
            if member_id not in self.group.targets or self.group.targets[member_id] != target:
                self.put_target(member_id, target)
        self.put_target_epoch(epoch)

    def reconcile(self, member_id: str, owned: Assignment | None, *, subscription_changed: bool = False) -> ConsumerMember:
        """Take a member one step forward and return it. Raises Rejected(FENCED_MEMBER_EPOCH)."""
        group = self.group
        member = group.members[member_id]
        if member.is_reconciled_to(group.assignment_epoch) and not subscription_changed:
            return member
        infos = (self.topics.by_name(name) for name in group.topics_of(member))
        subscribed = frozenset(info.topic_id for info in infos if info is not None)
        target = Target(group.assignment_epoch, group.target(member_id), group.is_free, subscribed, subscription_changed)
        after = reconcile(member, target, owned)
        if after is member:
            return member
        self.put_assignment(after)
        if after.classic is None:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self.deadlines.set(DeadlineKind.REBALANCE, member_id, self.now.mono_ms + after.rebalance_timeout_ms, after.epoch)
            else:
                self.deadlines.cancel(DeadlineKind.REBALANCE, member_id)
        return after

    def keep_session(self, member: ConsumerMember) -> None:
        """Extend a member's session."""
        timeout_ms = self.config.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
        self.deadlines.set(DeadlineKind.SESSION, member.member_id, self.now.mono_ms + timeout_ms)

    # --- internals ------------------------------------------------------------------------------------------------------------

    def _put_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        key = records.ConsumerGroupTargetAssignmentMetadataKey(self.group_id)
        self.put(key, records.ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp_ms))

    def metadata_hash(self) -> int:
        """Return the hash of the subscribed topics as they are now."""
        infos = (self.topics.by_name(name) for name in self.group.subscribed_topics())
        return hash_of(info for info in infos if info is not None)

    def _forget_unused_regexes(self) -> None:
        for regex in sorted(self.group.resolved):
            if not self.group.subscribers_of_regex(regex):
                self.put(records.ConsumerGroupRegularExpressionKey(self.group_id, regex), None)

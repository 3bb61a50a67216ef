"""Decides the changes of a consumer group, on a copy of the group, before they are written. `group_update` has the rules for all kinds of
groups; this module adds those for regular expressions, reconciliation and classic protocol members.

Source: Kafka's GroupMetadataManager.consumerGroupHeartbeat and the methods that it calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.broker.groups.assignors import ASSIGNORS, RANGE, UNIFORM, Subscriber
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_member import Assignment, ConsumerMember, MemberState, current_assignment_of, metadata_of, topics_of
from ottla.broker.groups.deadlines import DeadlineKind, Deadlines
from ottla.broker.groups.group_update import RecordClasses, SubscriptionGroupUpdate
from ottla.broker.groups.reconciliation import Target, reconcile
from ottla.broker.groups.regexes import RegexChange, Resolution, is_due
from ottla.broker.groups.states import Now
from ottla.broker.groups.topics_view import MayDescribe, TopicsView, check_regex
from ottla.protocol import consumer_group_log as records


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """The settings of consumer groups, under Kafka's names without `group.consumer.`; times in ms. The first assignor is the default. A
    group with more than `classic_max_size` members is not converted to a classic group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = (UNIFORM, RANGE)
    allows_upgrade: bool = True
    allows_downgrade: bool = True
    classic_max_size: int = 2**31 - 1
    assignment_interval_ms: int = 1_000
    delays_assignments: bool = True
    ends_removed_expressions: bool = True
    """Whether the removal of a member's regular expression leads to a new target assignment at once, as since Kafka 4.1. If false, only the
    next change of the group does.
    """
    ends_subscriptions_at_once: bool = True
    """Whether a member that unsubscribes from a topic must revoke the topic's partitions at once, as since Kafka 4.2. If false, it must do
    so only after the next target assignment.
    """
    assigns_empty: bool = False
    follows_preferred_assignor: bool = True
    """Whether a change of the assignor that most members request leads to a new target assignment at once, as since Kafka 4.4. If false,
    only the next change of the group does.
    """
    regex_refresh_interval_ms: int = 600_000

    @property
    def allows_classic_members(self) -> bool:
        """Whether a classic protocol member may join a consumer group that has members."""
        return self.allows_upgrade or self.allows_downgrade


class ConsumerGroupUpdate(SubscriptionGroupUpdate[ConsumerGroup, ConsumerConfig]):
    """One operation on a consumer group: a copy of the group, and the records that it will write. If the operation converts the group to a
    classic group, `downgraded` is whether that group must rebalance; otherwise it is None.
    """

    CLASSES = RecordClasses(
        epoch_key=records.ConsumerGroupMetadataKey,
        member_key=records.ConsumerGroupMemberMetadataKey,
        target_epoch_key=records.ConsumerGroupTargetAssignmentMetadataKey,
        target_epoch=records.ConsumerGroupTargetAssignmentMetadataValue,
        target_key=records.ConsumerGroupTargetAssignmentMemberKey,
        target=lambda target: records.ConsumerGroupTargetAssignmentMemberValue(topics_of(target)),
        assignment_key=records.ConsumerGroupCurrentMemberAssignmentKey,
    )

    def __init__(self, group: ConsumerGroup, deadlines: Deadlines, topics: TopicsView, config: ConsumerConfig, now: Now) -> None:
        super().__init__(group, deadlines, topics, config, now)
        self.downgraded: bool | None = None
        self.resolution: Resolution | None = None
        """The resolution of the group's regular expressions that this operation plans, to be run afterwards; None if none is due."""

    # --- records --------------------------------------------------------------------------------------------------------------

    def put_member(self, member: ConsumerMember) -> None:
        """Add the record of a member's metadata to the records that this operation writes, if the metadata has changed."""
        before = self.group.members.get(member.member_id)
        if before is None or metadata_of(before) != metadata_of(member):
            self.put(records.ConsumerGroupMemberMetadataKey(self.group_id, member.member_id), metadata_of(member))

    def put_assignment(self, member: ConsumerMember) -> None:
        """Add the record of a member's current assignment to the records that this operation writes."""
        self.put(records.ConsumerGroupCurrentMemberAssignmentKey(self.group_id, member.member_id), current_assignment_of(member))

    def put_unknown_target_epoch(self, epoch: int) -> None:
        """Add the record of the target assignment's epoch to the records that this operation writes, when a classic group is converted. The
        time of the assignment is written as unknown (0), so that the assignment interval does not delay the next computation.
        """
        self._put_target_epoch(epoch, 0)

    def replace_member(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Give a static member that returns under the new id `member_id` the target and current assignment of `old`; return the new
        member."""
        member = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        target = self.group.target(old.member_id)
        self.remove_member(old.member_id)
        self.put_member(member)
        self.put_target(member_id, target)
        self.put_assignment(member)
        return self.group.members[member_id]

    # --- consequences of a change ---------------------------------------------------------------------------------------------

    def change_member(self, before: ConsumerMember, after: ConsumerMember, may_describe: MayDescribe) -> bool:
        """Add the record of the member's metadata if it has changed. Bump the group epoch if the subscribed topics, their metadata or the
        assignor that most members request have changed. Plan a resolution of regular expressions if one is due; it finds only topics for
        which `may_describe` is true.

        Return whether the member's subscription has changed. Raises Rejected(INVALID_REGULAR_EXPRESSION). Source: Kafka's
        hasMemberSubscriptionChanged, maybeUpdateRegularExpressions, hasPreferredServerAssignorChanged, updateSubscriptionMetadata.
        """
        assignor = self.preferred_assignor()
        names_changed = after.topic_names != before.topic_names
        regex, is_new = RegexChange.NO_CHANGE, False
        if after.topic_regex != before.topic_regex:
            is_new = bool(after.topic_regex) and not self.group.subscribers_of_regex(after.topic_regex)
            if is_new:
                check_regex(after.topic_regex)
            is_removed = not after.topic_regex and self.config.ends_removed_expressions
            is_known = is_removed or after.topic_regex in self.group.resolved
            regex = RegexChange.REGEX_UPDATED_AND_RESOLVED if is_known and not is_new else RegexChange.REGEX_UPDATED
        self.put_member(after)
        other_assignor = self.config.follows_preferred_assignor and self.preferred_assignor() != assignor
        if regex is not RegexChange.NO_CHANGE:
            self._forget_unused_regexes()
        if is_due(self.group, self.topics, self.now.wall_ms, self.config.regex_refresh_interval_ms, is_new=is_new):
            self.resolution = Resolution(self.group_id, tuple(sorted(self.group.regexes)), may_describe)
        is_new_group = (
            self.group.epoch == 0
        )  # as in Kafka before 4.3, so that the first member's epoch is not 0, even if its regular expression is not resolved yet
        resolved = regex is RegexChange.REGEX_UPDATED_AND_RESOLVED
        self.refresh(subscriptions_changed=names_changed or resolved or other_assignor or is_new_group)
        return names_changed or regex is not RegexChange.NO_CHANGE

    def put_resolved(self, resolution: Resolution) -> None:
        """Add a record for each regular expression, with the names of the topics that the resolution has found for it. Bump the group epoch
        if these topics, or the metadata of the subscribed topics, have changed."""
        changed = False
        for regex, topics in sorted(resolution.found.items()):
            if self.group.subscribers_of_regex(regex):
                changed = changed or self.group.resolved.get(regex, frozenset()) != topics
                value = records.ConsumerGroupRegularExpressionValue(sorted(topics), self.topics.version, resolution.began_ms)
                self.put(records.ConsumerGroupRegularExpressionKey(self.group_id, regex), value)
        metadata_hash = self.metadata_hash()
        if changed or metadata_hash != self.group.metadata_hash:
            self.put_epoch(self.group.epoch + 1, metadata_hash)

    def bump_after_leave(self) -> None:
        """Bump the group epoch after a member was removed, and write tombstones for resolved regular expressions without a subscriber."""
        self._forget_unused_regexes()
        super().bump_after_leave()

    def epoch_value(self, epoch: int, metadata_hash: int) -> records.ConsumerGroupMetadataValue:
        return records.ConsumerGroupMetadataValue(epoch, metadata_hash)

    def assign(self) -> Mapping[str, Assignment]:
        """Return each member's target assignment, computed by the assignor that most members request."""
        group, known = self.group, self.known_topics()
        subscribers = {
            member_id: Subscriber(self.topic_ids_of(group.topics_of(member), known), member.instance_id, group.target(member_id))
            for member_id, member in group.members.items()
        }
        assign = ASSIGNORS[self.preferred_assignor()]
        return assign(subscribers, {info.topic_id: info.partitions for info in known.values()})

    def preferred_assignor(self) -> str:
        """Return the name of the assignor that most members request, or of the first configured one if no member requests one."""
        return self.group.preferred_assignor(self.config.assignors[0])

    def reconcile(self, member_id: str, owned: Assignment | None, *, subscription_changed: bool = False) -> ConsumerMember:
        """Take a member one step towards its target assignment, add the record of the result if it differs, and return the member. `owned`
        are the partitions that the request lists as owned, None without a list. Raises Rejected(FENCED_MEMBER_EPOCH) if the member's stored
        state is one that this broker does not know."""
        group = self.group
        member = group.members[member_id]
        subscription_changed = subscription_changed and self.config.ends_subscriptions_at_once
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
        """Restart a member's session timeout. A member of the classic protocol has its own timeout (from JoinGroup); all others have the
        group's.
        """
        timeout_ms = self.config.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
        self.start_session(member.member_id, timeout_ms)

    def _forget_unused_regexes(self) -> None:
        for regex in sorted(self.group.resolved):
            if not self.group.subscribers_of_regex(regex):
                self.put(records.ConsumerGroupRegularExpressionKey(self.group_id, regex), None)

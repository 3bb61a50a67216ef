"""Decides the changes of a share group, on a copy of the group, before they are written. `group_update` has the rules for all kinds of
groups; this module adds those for the initialization of share partitions.

Source: Kafka's GroupMetadataManager.shareGroupHeartbeat and the methods that it calls, ShareGroupAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.broker.groups.assignors import Subscriber
from ottla.broker.groups.consumer_member import Assignment, topics_of
from ottla.broker.groups.group_update import RecordClasses, SubscriptionGroupUpdate
from ottla.broker.groups.share_group import (
    SharedTopic,
    SharedTopics,
    ShareGroup,
    ShareMember,
    StatePartitions,
    current_assignment_of,
    metadata_of,
    record_of,
    united,
)
from ottla.broker.groups.simple_assignor import assign_simple
from ottla.protocol import share_group_log as records


@dataclass(frozen=True, slots=True)
class ShareConfig:
    """The settings of share groups, under Kafka's names without `group.share.`; times in ms."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 200
    assignment_interval_ms: int = 1_000
    delays_assignments: bool = True
    assigns_empty: bool = False
    initialize_retry_interval_ms: int = 30_000
    reads_added_partitions_whole: bool = True


class ShareGroupUpdate(SubscriptionGroupUpdate[ShareGroup, ShareConfig]):
    """One operation on a share group: a copy of the group, and the records that it will write."""

    CLASSES = RecordClasses(
        epoch_key=records.ShareGroupMetadataKey,
        member_key=records.ShareGroupMemberMetadataKey,
        target_epoch_key=records.ShareGroupTargetAssignmentMetadataKey,
        target_epoch=records.ShareGroupTargetAssignmentMetadataValue,
        target_key=records.ShareGroupTargetAssignmentMemberKey,
        target=lambda target: records.ShareGroupTargetAssignmentMemberValue(topics_of(target)),
        assignment_key=records.ShareGroupCurrentMemberAssignmentKey,
    )

    def put_partitions(self, partitions: StatePartitions) -> None:
        """Add the record of the group's share partitions (initialized, being initialized or being deleted) to the records that this
        operation writes.
        """
        self.put(records.ShareGroupStatePartitionMetadataKey(self.group_id), record_of(partitions))

    def change_member(self, before: ShareMember, after: ShareMember) -> bool:
        """Add the record of the member's metadata if it has changed. Bump the group epoch if the member's subscription or the topics'
        metadata have changed, or if initialized partitions are not assigned yet.

        Return whether the epoch was bumped.
        """
        is_assigned = self.group.assignment_epoch >= self.group.epoch or not self.config.delays_assignments
        pending = is_assigned and self.group.lacks_assignment
        if before.member_id not in self.group.members or metadata_of(before) != metadata_of(after):
            self.put(records.ShareGroupMemberMetadataKey(self.group_id, after.member_id), metadata_of(after))
        epoch = self.group.epoch
        self.refresh(subscriptions_changed=before.topic_names != after.topic_names or pending)
        return self.group.epoch != epoch

    def epoch_value(self, epoch: int, metadata_hash: int) -> records.ShareGroupMetadataValue:
        return records.ShareGroupMetadataValue(epoch, metadata_hash)

    def assign(self) -> Mapping[str, Assignment]:
        """Return each member's target assignment, computed by the assignor `simple` from the initialized partitions."""
        group, known = self.group, self.known_topics()
        ids = {info.topic_id for info in known.values()}
        subscribers = {
            member_id: Subscriber(self.topic_ids_of(member.topic_names, known), before=group.target(member_id))
            for member_id, member in group.members.items()
        }
        return assign_simple(subscribers, {key: topic.partitions for key, topic in group.partitions.initialized.items() if key in ids})

    def reconcile(self, member_id: str, *, epoch_bumped: bool) -> ShareMember:
        """Move a member to its target assignment at once, and return the member as it is afterwards. A member in the target's epoch is
        returned unchanged, unless this operation has bumped the group epoch."""
        member, epoch = self.group.members[member_id], self.group.assignment_epoch
        if member.epoch == epoch and not epoch_bumped:
            return member
        infos = (self.topics.by_name(name) for name in member.topic_names)
        subscribed = {info.topic_id for info in infos if info is not None}
        target = {topic_id: partitions for topic_id, partitions in self.group.target(member_id).items() if topic_id in subscribed}
        after = replace(member, assigned=target)
        if member.epoch != epoch:
            after = replace(after, epoch=epoch, previous_epoch=member.epoch)
        if after != member:
            self.put(records.ShareGroupCurrentMemberAssignmentKey(self.group_id, member_id), current_assignment_of(after))
        return after

    def initialize(self, begun: SharedTopics) -> SharedTopics:
        """Add the record that marks the subscribed partitions without share state as being initialized, and return these partitions.

        `begun` has the partitions whose initialization may still be in progress; they are not included.
        """
        group = self.group
        covered = united(group.partitions.initialized, begun)
        missing: dict[bytes, SharedTopic] = {}
        for name in sorted(group.subscribed_topics()):
            info = self.topics.by_name(name)
            if info is None:
                continue
            done = covered[info.topic_id].partitions if info.topic_id in covered else frozenset()
            if len(done) < info.partitions:
                missing[info.topic_id] = SharedTopic(name, frozenset(range(info.partitions)) - done)
        self.put_initializing(missing)
        return missing

    def put_initializing(self, topics: SharedTopics) -> None:
        """Add the record that marks these share partitions as being initialized, and their topics as no longer being deleted."""
        if not topics:
            return
        partitions = self.group.partitions
        initializing = united(partitions.initializing, topics)
        deleting = {topic_id: name for topic_id, name in partitions.deleting.items() if topic_id not in initializing}
        self.put_partitions(replace(partitions, initializing=initializing, deleting=deleting))

"""Decides the changes of a streams group, on a copy of the group, before they are written. `group_update` has the rules for all kinds of
groups; this module adds those for the topology, the tasks and their reconciliation.

Source: Kafka's GroupMetadataManager.streamsGroupHeartbeat and the methods that it calls, TargetAssignmentBuilder (streams).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.deadlines import DeadlineKind, Deadlines
from ottla.broker.groups.group_update import GroupUpdate, RecordClasses
from ottla.broker.groups.modern import FIRST_EPOCH
from ottla.broker.groups.states import Now
from ottla.broker.groups.streams_group import OffsetReport, StreamsGroup
from ottla.broker.groups.streams_member import StreamsMember, StreamsMemberState, current_assignment_of, metadata_of, target_of
from ottla.broker.groups.streams_reconciliation import TaskTarget, reconcile
from ottla.broker.groups.topics_view import TopicsView
from ottla.broker.streams.internal_topics import ConfiguredTopology, configure
from ottla.broker.streams.sticky_assignor import MemberSpec, assign
from ottla.broker.streams.tasks import TaskSet
from ottla.broker.streams.topology import Topology
from ottla.protocol import streams_group_log as records
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.streams_group import KeyValue
from ottla.protocol.streams_group_log import StreamsGroupTopologyValue

NOT_VALIDATED = -1
_TASK_OFFSET_INTERVAL_MS, _ACCEPTABLE_RECOVERY_LAG = 60_000, 10_000
"""Kafka's defaults for the internal settings `group.streams.task.offset.interval.ms` and `group.streams.acceptable.recovery.lag` (in
offsets), which Ottla accepts without an effect.
"""


@dataclass(frozen=True, slots=True)
class StreamsConfig:
    """The settings of streams groups, under Kafka's names without `group.streams.`; times in ms."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    num_standby_replicas: int = 0
    initial_rebalance_delay_ms: int = 3_000
    assignment_interval_ms: int = 1_000
    delays_assignments: bool = True
    assigns_empty: bool = False
    has_4_4_features: bool = False
    """Whether members may be static, and may report the offsets of their tasks, as since Kafka 4.4."""
    rack_tags: tuple[str, ...] = ()
    """The keys of the client tags that members must have, from group.streams.rack.aware.assignment.tags."""

    @property
    def task_offset_interval_ms(self) -> int:
        """The interval in ms at which members report the changelog offsets of their tasks; 0: never."""
        return _TASK_OFFSET_INTERVAL_MS if self.has_4_4_features else 0

    @property
    def acceptable_recovery_lag(self) -> int:
        """The lag, in offsets, up to which a task counts as caught up; -1 if members do not report offsets. The heartbeat response has this
        value."""
        return _ACCEPTABLE_RECOVERY_LAG if self.has_4_4_features else -1

    @property
    def assignment_configs(self) -> Mapping[str, str]:
        """The assignor's settings, by name, as they are stored in the group's record."""
        tags = {"rack.aware.assignment.tags": ",".join(self.rack_tags)} if self.rack_tags else {}
        return {"num.standby.replicas": str(self.num_standby_replicas), **tags}


class StreamsGroupUpdate(GroupUpdate[StreamsGroup, StreamsConfig]):
    """One operation on a streams group: a copy of the group, and the records that it will write. The record of a new group epoch also has
    `validated_topology_epoch` and `assignment_configs`."""

    CLASSES = RecordClasses(
        epoch_key=records.StreamsGroupMetadataKey,
        member_key=records.StreamsGroupMemberMetadataKey,
        target_epoch_key=records.StreamsGroupTargetAssignmentMetadataKey,
        target_epoch=records.StreamsGroupTargetAssignmentMetadataValue,
        target_key=records.StreamsGroupTargetAssignmentMemberKey,
        target=target_of,
        assignment_key=records.StreamsGroupCurrentMemberAssignmentKey,
    )

    def __init__(self, group: StreamsGroup, deadlines: Deadlines, topics: TopicsView, config: StreamsConfig, now: Now) -> None:
        super().__init__(group, deadlines, topics, config, now)
        self.validated_topology_epoch = group.validated_topology_epoch
        self.assignment_configs = group.assignment_configs

    # --- what is not persisted ------------------------------------------------------------------------------------------------

    @property
    def original_group(self) -> StreamsGroup:
        """The original group, whose unpersisted state this operation changes at once, without a record. If the group is new, these changes
        are lost, as in Kafka: `apply` then creates another object from the records."""
        return self._original

    @property
    def configured(self) -> ConfiguredTopology:
        """The group's topology, checked against the existing topics. Raises Rejected(UNKNOWN_SERVER_ERROR) if the topology was not checked
        since the group was loaded."""
        if self.original_group.configured is None:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self.original_group.configured

    @property
    def delays_first_assignment(self) -> bool:
        """Whether the group is new and delays its first target assignment, so that more members can join."""
        return self.deadlines.get(DeadlineKind.INITIAL_REBALANCE, "") is not None

    def partitions_of(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None if the topic does not exist."""
        info = self.topics.by_name(topic)
        return None if info is None else info.partitions

    # --- records --------------------------------------------------------------------------------------------------------------

    def epoch_value(self, epoch: int, metadata_hash: int) -> records.StreamsGroupMetadataValue:
        configs = [KeyValue(key, value) for key, value in sorted(self.assignment_configs.items())]
        return records.StreamsGroupMetadataValue(epoch, metadata_hash, self.validated_topology_epoch, configs)

    def bump_after_leave(self) -> None:
        """Bump the group epoch after a member was removed. The metadata hash stays; the next heartbeat compares the topics again."""
        self.put_epoch(self.group.epoch + 1, self.group.metadata_hash)
        self._assign_empty()

    # --- consequences of a heartbeat ------------------------------------------------------------------------------------------

    def put_member(self, before: StreamsMember, after: StreamsMember, *, names_instance: bool = False) -> bool:
        """Add the record of a member's metadata to the records that this operation writes, if the metadata has changed. Return whether the
        change requires a new group epoch. If a known member's request has an instance id (`names_instance`), only changes of fields that
        the assignor may use require one."""
        is_known = before.member_id in self.group.members
        if is_known and before == after:
            return False
        self.put(records.StreamsGroupMemberMetadataKey(self.group_id, after.member_id), metadata_of(after))
        return not (is_known and names_instance) or _relevant(before) != _relevant(after)

    def put_assignment(self, member: StreamsMember) -> None:
        """Add the record of a member's current assignment of tasks to the records that this operation writes."""
        self.put(records.StreamsGroupCurrentMemberAssignmentKey(self.group_id, member.member_id), current_assignment_of(member))

    def replace_member(self, old: StreamsMember, member_id: str) -> StreamsMember:
        """Give a static member that returns under the new id `member_id` the target and current assignment of `old`; return the new
        member."""
        member = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        target = self.group.target(old.member_id)
        self.remove_member(old.member_id)
        self.put(records.StreamsGroupMemberMetadataKey(self.group_id, member_id), metadata_of(member))
        self.put_target(member_id, target)
        self.put_assignment(member)
        return self.group.members[member_id]

    def put_topology(self, value: StreamsGroupTopologyValue) -> None:
        """Add the record of the topology that a member sent, if the group has none. An equal topology, or one of an older epoch, is
        ignored.

        Raises Rejected(INVALID_REQUEST) for a different topology of the same or a newer epoch: updates are not supported, as in Kafka.
        """
        sent, known = Topology.of(value), self.group.topology
        if known is None:
            self.put(records.StreamsGroupTopologyKey(self.group_id), value)
        elif known.epoch <= sent.epoch and known != sent:
            raise Rejected(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")

    def check_topology(self) -> int:
        """Configure the group's topology with the existing topics, if the topology or the topics may have changed since the last call.
        Return the hash of the topics' metadata. Raises Rejected(UNKNOWN_SERVER_ERROR) if the group has no topology.
        """
        group, original = self.group, self.original_group
        if group.topology is None:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, "The topology is null and the group topology is also null.")
        if original.topology is not None and original.configured is not None and original.topics_version == self.topics.version:
            return group.metadata_hash
        metadata_hash = self.metadata_hash()
        # The hash is compared with the one for which the topology was configured. Kafka compares it with the hash in the log: if topics
        # change, and change back before the new hash is written, Kafka's configured topology stays outdated.
        if original.topology is None or original.configured is None or metadata_hash != original.configured.metadata_hash:
            original.configured = configure(group.topology, metadata_hash, self.partitions_of)
        if metadata_hash == group.metadata_hash:  # a new hash counts only when it is written
            original.topics_version = self.topics.version
        return metadata_hash

    def refresh(self, metadata_hash: int, *, member_changed: bool) -> None:
        """Bump the group epoch if the member, the topics, the validity of the topology or the assignor's settings have changed."""
        group, configs = self.group, self.config.assignment_configs
        self.validated_topology_epoch = self.configured.epoch if self.configured.is_ready else NOT_VALIDATED
        validity_changed = self.validated_topology_epoch != group.validated_topology_epoch
        if member_changed or validity_changed or metadata_hash != group.metadata_hash or configs != group.assignment_configs:
            self.assignment_configs = configs
            self.put_epoch(group.epoch + 1, metadata_hash)

    def assign(self) -> Mapping[str, TaskSet]:
        """Return each member's target tasks, computed by the assignor `sticky`; no tasks while the topology is not ready."""
        group, configured = self.group, self.configured
        if not configured.is_ready or configured.subtopologies is None:
            return {member_id: TaskSet() for member_id in group.members}
        extended, reports = self.config.has_4_4_features, self.original_group.reports
        members = {
            member_id: MemberSpec(
                member.process_id, member.assigned if extended else group.target(member_id), reports.get(member_id, OffsetReport()).offsets
            )
            for member_id, member in group.members.items()
        }
        standbys = int(self.assignment_configs.get("num.standby.replicas", "0"))
        return assign(members, configured.subtopologies, standbys, by_offsets=extended)

    def reconcile(self, member_id: str, owned: TaskSet | None) -> StreamsMember:
        """Take a member one step towards its target tasks, add the record of the result if it differs, and return the member. `owned` are
        the tasks that the request lists as owned, None without lists. Raises Rejected(FENCED_MEMBER_EPOCH) if the member's stored state is
        one that this broker does not know."""
        group = self.group
        member = group.members[member_id]
        tasks = TaskSet() if self.delays_first_assignment else group.target(member_id)
        epoch = max(FIRST_EPOCH, group.assignment_epoch)  # a joining member's epoch is not 0 while the first assignment is delayed
        after = reconcile(member, TaskTarget(epoch, tasks, group, in_place=self.config.has_4_4_features), owned)
        if after is member:
            return member
        self.put_assignment(after)
        self.watch_revocation(after)
        return after

    def watch_revocation(self, member: StreamsMember) -> None:
        """Set the member's deadline for revoking tasks if it has tasks to revoke, otherwise cancel the deadline."""
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            due_ms = self.now.mono_ms + member.rebalance_timeout_ms
            self.deadlines.set(DeadlineKind.REBALANCE, member.member_id, due_ms, member.epoch)
        else:
            self.deadlines.cancel(DeadlineKind.REBALANCE, member.member_id)


def _relevant(member: StreamsMember) -> tuple[object, ...]:
    """Return the fields of a member that the assignor may use: a change of them needs a new group epoch even for a static member. Source:
    Kafka's hasEpochRelevantMemberConfigChanged."""
    return member.topology_epoch, member.rack_id, member.client_tags, member.process_id

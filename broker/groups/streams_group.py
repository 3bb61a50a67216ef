"""A streams group of KIP-1071: its topology, its members, and their target and current tasks.

Invariants:

* Its epochs and its persistence follow the rules in `modern`. A member moves to the epoch of its target assignment step by step
  (`streams_reconciliation`). The holders of tasks are processes, not members: the threads of a process share its state on disk.
* The topology is the one that the first member sent. Its epoch is validated while all topics exist with the right numbers of partitions.
  Otherwise the group is not ready, and its members have no tasks.
* `configured`, `shutdown_requested_by`, `endpoint_epoch` and `reports` are not persisted: the first heartbeat after a load computes the
  configured topology again.

Source: Kafka's StreamsGroup, GroupMetadataManager.replay (StreamsGroup*).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ottla.broker.groups.group_records import GroupRecord
from ottla.broker.groups.modern import FIRST_EPOCH, CommitPartition, ModernState, OffsetsGroup
from ottla.broker.groups.streams_member import (
    StreamsMember,
    fields_of_assignment,
    fields_of_metadata,
    target_from,
)
from ottla.broker.streams.internal_topics import ConfiguredTopology
from ottla.broker.streams.tasks import TaskSet
from ottla.broker.streams.topology import Topology, inputs_of
from ottla.protocol import streams_group_log as records
from ottla.protocol.streams_group_log import StreamsKey, StreamsValue

STREAMS_PROTOCOL_TYPE = "streams"
_Task = tuple[str, int]


class OffsetReport(NamedTuple):
    """The changelog offsets that one member reported for its tasks, by (subtopology id, partition). A task may have several changelogs:
    `offsets` has the sum of the offsets that the member's state has reached in them, `end_offsets` the sum of their end offsets."""

    offsets: Mapping[_Task, int] = {}
    end_offsets: Mapping[_Task, int] = {}


class StreamsGroup(OffsetsGroup[StreamsMember, TaskSet]):
    """One streams group: its topology, its members, and their target and current tasks."""

    PROTOCOL_TYPE = STREAMS_PROTOCOL_TYPE

    def __init__(self, group_id: str, first_epoch: int = FIRST_EPOCH) -> None:
        super().__init__(group_id, first_epoch)
        self.epoch = FIRST_EPOCH  # in every release: the first member leads to epoch 2, also before 4.3, when new groups began at 0
        self.topology: Topology | None = None
        self.validated_topology_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        """The assignor's settings, by name, when the group epoch was last bumped. If the settings change, the epoch is bumped again."""
        self.configured: ConfiguredTopology | None = None
        """The result of the last check of the topology against the existing topics; None: not checked since the group was loaded."""
        self.shutdown_requested_by: str | None = None
        """The first member that requested the shutdown of the application; it is forgotten when the last member leaves."""
        self.endpoint_epoch = 0
        """A counter of the changes of members' tasks and endpoints since the group was loaded. A member with an older value gets the
        endpoints again.
        """
        self.reports: dict[str, OffsetReport] = {}
        """The last report of each member about the offsets of its tasks, by member id. It is not persisted: empty after the group is
        loaded.
        """
        self._active: dict[_Task, str] = {}
        self._standby: dict[_Task, frozenset[str]] = {}
        self._warmup: dict[_Task, frozenset[str]] = {}

    # --- queries --------------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ModernState:
        if self.members and (self.topology is None or self.topology.epoch != self.validated_topology_epoch):
            return ModernState.NOT_READY
        return super().state

    def target(self, member_id: str) -> TaskSet:
        return self.targets.get(member_id) or TaskSet()

    def subscribed_topics(self) -> frozenset[str]:
        """Return the source, repartition and changelog topics of the group's topology, existing or not; no topics without a topology."""
        return frozenset() if self.topology is None else self.topology.required_topics

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.source_topics

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """Return the id of the process that holds the task as an active task, None if no process does."""
        return self._active.get((subtopology_id, partition))

    def has_replica(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Return whether the process holds the task as a standby or warm-up task."""
        task = (subtopology_id, partition)
        return process_id in self._standby.get(task, ()) or process_id in self._warmup.get(task, ())

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstone records that delete the group. The group must have no members."""
        keys = (
            records.StreamsGroupTargetAssignmentMetadataKey(self.group_id),
            records.StreamsGroupMetadataKey(self.group_id),
            records.StreamsGroupTopologyKey(self.group_id),
        )
        return [GroupRecord(key, None) for key in keys]

    def _held_in_epoch(self, member: StreamsMember, partition: CommitPartition, epoch: int) -> bool:
        subtopologies = () if self.topology is None else self.topology.subtopologies.values()
        readers = [one.subtopology_id for one in subtopologies if partition.topic in inputs_of(one)]
        return bool(readers) and member.epochs.get((readers[-1], partition.partition), epoch + 1) <= epoch

    # --- persistence ----------------------------------------------------------------------------------------------------------

    def apply(self, key: StreamsKey, value: StreamsValue | None) -> None:
        """Apply a record of this group to its state, live or while loading. After compaction any record may be missing."""
        match key:
            case records.StreamsGroupMetadataKey():
                if isinstance(value, records.StreamsGroupMetadataValue):
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
                    self.validated_topology_epoch = value.validated_topology_epoch
                    self.assignment_configs = {one.key: one.value for one in value.last_assignment_configs or ()}
            case records.StreamsGroupTopologyKey():
                self.topology = Topology.of(value) if isinstance(value, records.StreamsGroupTopologyValue) else None
            case records.StreamsGroupTargetAssignmentMetadataKey():
                if isinstance(value, records.StreamsGroupTargetAssignmentMetadataValue):
                    self._apply_target_epoch(value.assignment_epoch, value.assignment_timestamp)
                else:
                    self._apply_target_epoch()
            case records.StreamsGroupMemberMetadataKey():
                self._apply_metadata(key.member_id, value)
            case records.StreamsGroupTargetAssignmentMemberKey():
                target = target_from(value) if isinstance(value, records.StreamsGroupTargetAssignmentMemberValue) else None
                self._apply_target(key.member_id, target)
            case records.StreamsGroupCurrentMemberAssignmentKey():
                self._apply_assignment(key.member_id, value)

    def _apply_metadata(self, member_id: str, value: StreamsValue | None) -> None:
        if isinstance(value, records.StreamsGroupMemberMetadataValue):
            self._change(member_id, **fields_of_metadata(value))
        elif member_id in self.members:
            member = self.members.pop(member_id)
            self._release(member)
            self._remove_instance(member)
            if not self.members:
                self.shutdown_requested_by = None

    def _apply_assignment(self, member_id: str, value: StreamsValue | None) -> None:
        """Apply the record of a member's current assignment. A tombstone leaves the member without tasks, because the tombstone of the
        member itself follows; for an unknown member it changes nothing."""
        if isinstance(value, records.StreamsGroupCurrentMemberAssignmentValue):
            self._change(member_id, **fields_of_assignment(value))
        elif member_id in self.members:
            none = TaskSet()
            self._change(member_id, epoch=-1, previous_epoch=-1, assigned=none, pending_revocation=none, epochs={})

    def _change(self, member_id: str, **changes: Any) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._release(before)
            self._remove_instance(before)
        after = self.members[member_id] = replace(before or StreamsMember(member_id=member_id), **changes)
        self._enter_instance(after)
        held, process_id = after.held_tasks(), after.process_id
        for task in _each(held.active):
            self._active[task] = process_id
        for processes, tasks in ((self._standby, held.standby), (self._warmup, held.warmup)):
            for task in _each(tasks):
                processes[task] = processes.get(task, frozenset()) | {process_id}

    def _release(self, member: StreamsMember) -> None:
        held, process_id = member.held_tasks(), member.process_id
        for task in _each(held.active):
            if self._active.get(task) == process_id:
                del self._active[task]
        for processes, tasks in ((self._standby, held.standby), (self._warmup, held.warmup)):
            for task in _each(tasks):
                processes[task] = processes.get(task, frozenset()) - {process_id}
                if not processes[task]:
                    del processes[task]


def _each(tasks: Mapping[str, frozenset[int]]) -> list[_Task]:
    return [(subtopology_id, partition) for subtopology_id, partitions in tasks.items() for partition in partitions]

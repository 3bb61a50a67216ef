"""A member of a streams group (KIP-1071), as an immutable value.

Invariants:

* `assigned` has the tasks that the member was assigned; `pending_revocation` those that it must revoke and has not confirmed yet. No other
  member gets one of its active tasks, and no other member of its process gets any of its tasks.
* `epochs` has the group epoch in which each active task was assigned: an offset committed with an older epoch is valid for a task that the
  member already had in that epoch (KIP-1251).

Source: Kafka's StreamsGroupMember, MemberState, TasksTupleWithEpochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ottla.broker.groups.consumer_member import epochs_per_partition
from ottla.broker.streams.tasks import Tasks, TaskSet, sorted_tasks, tasks_from
from ottla.protocol.messages.streams_group import Endpoint, KeyValue, TaskIds
from ottla.protocol.streams_group_log import (
    OwnedTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
)

TaskEpochs = Mapping[tuple[str, int], int]
"""The group epoch in which each task was assigned, by (subtopology id, partition)."""


class StreamsMemberState(IntEnum):
    """A member's state on the way to its target assignment (Kafka's streams MemberState). The numbers are those of the field `State` in
    StreamsGroupCurrentMemberAssignmentValue.
    """

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """One member of a streams group: a thread of an application. `rebalance_timeout_ms` limits the time for revoking tasks; `user_endpoint`
    is the (host, port) at which the process answers interactive queries."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: TaskSet = field(default_factory=TaskSet)
    pending_revocation: TaskSet = field(default_factory=TaskSet)
    epochs: TaskEpochs = field(default_factory=dict)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.epoch == target_epoch

    def held_tasks(self) -> TaskSet:
        """Return all tasks that the member holds: those assigned to it, and those that it must still revoke."""
        return self.assigned.united(self.pending_revocation)


def fields_of_metadata(value: StreamsGroupMemberMetadataValue) -> dict[str, object]:
    """Return keyword arguments for StreamsMember: the fields that a member metadata record (type 19) determines."""
    endpoint = value.user_endpoint
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "topology_epoch": value.topology_epoch,
        "process_id": value.process_id,
        "user_endpoint": None if endpoint is None else (endpoint.host, endpoint.port),
        "client_tags": {tag.key: tag.value for tag in value.client_tags},
    }


def metadata_of(member: StreamsMember) -> StreamsGroupMemberMetadataValue:
    """Return the value of the record (type 19) that stores the member's metadata."""
    return StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.user_endpoint is None else Endpoint(*member.user_endpoint),
        client_tags=[KeyValue(key, value) for key, value in sorted(member.client_tags.items())],
    )


def fields_of_assignment(value: StreamsGroupCurrentMemberAssignmentValue) -> dict[str, object]:
    """Return keyword arguments for StreamsMember: the fields that a current assignment record (type 22) determines."""
    known = value.state in {state.value for state in StreamsMemberState}
    return {
        "epoch": value.member_epoch,
        "previous_epoch": value.previous_member_epoch,
        "state": StreamsMemberState(value.state) if known else StreamsMemberState.UNKNOWN,
        "assigned": TaskSet(*map(tasks_from, (value.active_tasks, value.standby_tasks, value.warmup_tasks))),
        "pending_revocation": TaskSet(
            *map(
                tasks_from,
                (value.active_tasks_pending_revocation, value.standby_tasks_pending_revocation, value.warmup_tasks_pending_revocation),
            )
        ),
        "epochs": _epochs_from([*value.active_tasks, *value.active_tasks_pending_revocation], value.member_epoch),
    }


def current_assignment_of(member: StreamsMember) -> StreamsGroupCurrentMemberAssignmentValue:
    """Return the value of the record (type 22) that stores the member's current assignment of tasks."""
    assigned, revoked = member.assigned, member.pending_revocation
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_with_epochs(assigned.active, member.epochs),
        standby_tasks=_without_epochs(assigned.standby),
        warmup_tasks=_without_epochs(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(revoked.active, member.epochs),
        standby_tasks_pending_revocation=_without_epochs(revoked.standby),
        warmup_tasks_pending_revocation=_without_epochs(revoked.warmup),
    )


def target_from(value: StreamsGroupTargetAssignmentMemberValue) -> TaskSet:
    """Return the target tasks of a member in the value of a target assignment record (type 21)."""
    return TaskSet(*map(tasks_from, (value.active_tasks, value.standby_tasks, value.warmup_tasks)))


def target_of(target: TaskSet) -> StreamsGroupTargetAssignmentMemberValue:
    """Return the value of the record (type 21) that stores a member's target tasks."""
    active, standby, warmup = ([TaskIds(*one) for one in sorted_tasks(tasks)] for tasks in target.kinds())
    return StreamsGroupTargetAssignmentMemberValue(active, standby, warmup)


def _epochs_from(listed: Iterable[OwnedTaskIds], default: int) -> TaskEpochs:
    return {
        (one.subtopology_id, partition): epoch
        for one in listed
        for partition, epoch in zip(one.partitions, epochs_per_partition(one, default), strict=True)
    }


def _with_epochs(tasks: Tasks, epochs: TaskEpochs) -> list[OwnedTaskIds]:
    return [
        OwnedTaskIds(subtopology_id, partitions, [epochs[subtopology_id, partition] for partition in partitions])
        for subtopology_id, partitions in sorted_tasks(tasks)
    ]


def _without_epochs(tasks: Tasks) -> list[OwnedTaskIds]:
    return [OwnedTaskIds(subtopology_id, partitions) for subtopology_id, partitions in sorted_tasks(tasks)]

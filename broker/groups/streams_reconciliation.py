"""Takes a member of a streams group one step towards its target assignment: kept, revoked and newly assigned tasks.

Invariants, which ensure that each active task has one owner, and that a process has a task at most once, whatever its kind:

1. Tasks that the member has outside its target are revoked first. Until the member confirms this, by its lists of owned tasks, it stays in
   its epoch and gets nothing new.
2. Then it enters the target's epoch and gets the free tasks of its target. An active task is free if no process has it as one and the
   member's own process has it in no other kind; a standby or warm-up task if the member's process has the task in no kind.
3. While some are not free the member waits, is checked again at each heartbeat, and may have to revoke more meanwhile.

Source: Kafka's streams CurrentAssignmentBuilder; KIP-1071.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.streams_member import StreamsMember, StreamsMemberState
from ottla.broker.streams.tasks import Tasks, TaskSet
from ottla.protocol.error_codes import ErrorCode


class TaskHolders(Protocol):
    """Which processes hold which tasks."""

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process that holds the active task."""
        ...

    def has_replica(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Return whether the process holds the task as a standby or warm-up task."""
        ...


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """A member's target assignment, its epoch, and the tasks that are held."""

    epoch: int
    tasks: TaskSet
    holders: TaskHolders


@dataclass(frozen=True, slots=True)
class _Difference:
    """The tasks of one kind: kept, to be revoked, and to be assigned now; whether others are not free yet."""

    kept: Tasks
    revoked: Tasks
    assigned: Tasks
    waits: bool


def reconcile(member: StreamsMember, target: TaskTarget, owned: TaskSet | None) -> StreamsMember:
    """Return the member after the step; the same object if nothing changes. `owned` is None if the request had none.

    Raises Rejected(FENCED_MEMBER_EPOCH) for a member with tasks in a state that a newer coordinator wrote.
    """
    after = _step(member, target, owned)
    return member if after == member else after


def _step(member: StreamsMember, target: TaskTarget, owned: TaskSet | None) -> StreamsMember:
    if member.is_reconciled_to(target.epoch):
        return member
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        if owned is None or owned.intersects(member.pending_revocation):
            return member
        return _next(member, member.epoch + 1, target, owned)
    if member.state is not StreamsMemberState.UNKNOWN:
        return _next(member, member.epoch, target, owned)
    if owned is None or owned:
        raise Rejected(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
        )
    return _next(member, target.epoch, target, owned)


def _next(member: StreamsMember, epoch: int, target: TaskTarget, owned: TaskSet | None) -> StreamsMember:
    holders, process_id = target.holders, member.process_id

    def is_free_as_active(subtopology_id: str, partition: int) -> bool:
        held = holders.active_process(subtopology_id, partition) is not None
        return not held and not holders.has_replica(process_id, subtopology_id, partition)

    def is_free_as_replica(subtopology_id: str, partition: int) -> bool:
        held = holders.active_process(subtopology_id, partition) == process_id
        return not held and not holders.has_replica(process_id, subtopology_id, partition)

    differences = [
        _difference(had, wanted, is_free)
        for had, wanted, is_free in zip(
            member.assigned.kinds(), target.tasks.kinds(), (is_free_as_active, is_free_as_replica, is_free_as_replica), strict=True
        )
    ]
    kept = TaskSet(*(one.kept for one in differences))
    revoked = TaskSet(*(one.revoked for one in differences))
    if revoked and (owned is None or owned.intersects(revoked)):
        return _moved(member, StreamsMemberState.UNREVOKED_TASKS, epoch, kept, revoked)
    assigned = TaskSet(*(one.assigned for one in differences))
    new_epochs = {(subtopology_id, partition): target.epoch for subtopology_id, numbers in assigned.active.items() for partition in numbers}
    state = StreamsMemberState.UNRELEASED_TASKS if any(one.waits for one in differences) else StreamsMemberState.STABLE
    after = replace(member, epochs={**member.epochs, **new_epochs})
    return _moved(after, state, target.epoch, kept.united(assigned), TaskSet())


def _difference(had: Tasks, wanted: Tasks, is_free: _IsFree) -> _Difference:
    kept: dict[str, frozenset[int]] = {}
    revoked: dict[str, frozenset[int]] = {}
    assigned: dict[str, frozenset[int]] = {}
    waits, none = False, frozenset[int]()
    for subtopology_id in sorted(had.keys() | wanted.keys()):
        before, after = had.get(subtopology_id, none), wanted.get(subtopology_id, none)
        free = frozenset(partition for partition in after - before if is_free(subtopology_id, partition))
        waits = waits or free != after - before
        for tasks, partitions in ((kept, before & after), (revoked, before - after), (assigned, free)):
            if partitions:
                tasks[subtopology_id] = partitions
    return _Difference(kept, revoked, assigned, waits)


def _moved(member: StreamsMember, state: StreamsMemberState, epoch: int, assigned: TaskSet, revoked: TaskSet) -> StreamsMember:
    """Return the member in the new state. The previous epoch is kept, because the response with the new one may be lost."""
    after = replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, pending_revocation=revoked)
    active = after.owned().active
    epochs = {task: epoch for task, epoch in member.epochs.items() if task[1] in active.get(task[0], frozenset())}
    return replace(after, epochs=epochs)


class _IsFree(Protocol):
    def __call__(self, subtopology_id: str, partition: int, /) -> bool: ...

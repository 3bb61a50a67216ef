"""Takes a streams group's member one step towards its target assignment: which tasks it keeps, must revoke, and newly gets.

Invariants, which ensure that each active task has one owner, and that a process has a task at most once, whatever its kind:

1. Tasks that the member has outside its target are revoked first. Until the member confirms this, by its lists of owned tasks, it stays in
   its epoch and gets nothing new.
2. Then it enters the target's epoch and gets the free tasks of its target. An active task is free if no process has it as an active task,
   and the member's own process does not have it as a standby or warm-up task. A standby or warm-up task is free if the member's own process
   does not have it in any kind.
3. While some tasks of its target are not free, the member waits. Each heartbeat checks them again; a newer target may make the member
   revoke more meanwhile.
4. With `in_place` (Kafka 4.4) a task that the member itself has in another kind is free: it changes its kind in one step, so that the
   client keeps the task's state. There are two exceptions. If the task was active, the member must still confirm its revocation, because
   no other member may get it as an active task before. If the task is to become active, the member keeps it as a standby or warm-up task
   until no process has it as an active task.

Source: Kafka's streams CurrentAssignmentBuilder; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.streams_member import StreamsMember, StreamsMemberState
from ottla.broker.streams.tasks import Tasks, TaskSet
from ottla.protocol.error_codes import ErrorCode


class TaskHolders(Protocol):
    """The processes that hold active, standby and warm-up tasks of a streams group."""

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """Return the id of the process that holds the task as an active task, None if no process does."""
        ...

    def has_replica(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Return whether the process holds the task as a standby or warm-up task."""
        ...


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """A member's target assignment, the epoch of that target, and the current holders of tasks. With `in_place` (Kafka 4.4) a task that
    the member has in another kind (active, standby, warm-up) changes its kind in one step."""

    epoch: int
    tasks: TaskSet
    holders: TaskHolders
    in_place: bool = False


_Task = tuple[str, int]
"""A task: its subtopology id and partition number."""


@dataclass(slots=True)
class _Difference:
    """How a member's tasks of one kind (active, standby or warm-up) change in one step. `had` are its tasks before; it keeps `kept`, must
    revoke `revoked` and newly gets `assigned`. `waits` is true if further tasks of its target are not free yet.
    """

    had: set[_Task]
    kept: set[_Task]
    revoked: set[_Task]
    assigned: set[_Task]
    waits: bool


def reconcile(member: StreamsMember, target: TaskTarget, owned: TaskSet | None) -> StreamsMember:
    """Return the member after one step towards its target; the same object if nothing changes. `owned` are the tasks that the request lists
    as owned; None if it has no lists.

    Raises Rejected(FENCED_MEMBER_EPOCH) if a newer coordinator has written a member state that is unknown here, unless the request's lists
    of owned tasks are empty.
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
    differences = _differences(member, target)

    def has_to_revoke() -> TaskSet:
        revoked = _task_set(one.revoked for one in differences)
        return revoked if owned is None or owned.intersects(revoked) else TaskSet()

    if target.in_place:
        _change_kinds(differences, target, has_to_revoke)
    kept, revoked = _task_set(one.kept for one in differences), has_to_revoke()
    if revoked:
        return _moved(member, StreamsMemberState.UNREVOKED_TASKS, epoch, kept, revoked)
    state = StreamsMemberState.UNRELEASED_TASKS if any(one.waits for one in differences) else StreamsMemberState.STABLE
    after = replace(member, epochs={**member.epochs, **dict.fromkeys(sorted(differences[0].assigned), target.epoch)})
    return _moved(after, state, target.epoch, kept.united(_task_set(one.assigned for one in differences)), TaskSet())


def _differences(member: StreamsMember, target: TaskTarget) -> list[_Difference]:
    """Return one `_Difference` each for the active, standby and warm-up tasks."""
    holders, process_id = target.holders, member.process_id
    active, standby, warmup = (_pairs(tasks) for tasks in member.assigned.kinds())
    own = active | standby | warmup if target.in_place else set[_Task]()

    def has_replica(task: _Task) -> bool:
        return holders.has_replica(process_id, *task)

    def runs(task: _Task) -> bool:
        return holders.active_process(*task) == process_id

    def is_free_as_active(task: _Task) -> bool:
        return holders.active_process(*task) is None and (task in own or not has_replica(task))

    def is_free_as_standby(task: _Task) -> bool:
        return task in own or not (runs(task) or has_replica(task))

    def is_free_as_warmup(task: _Task) -> bool:
        return not runs(task) and (task in own or not has_replica(task))

    return [
        _difference(had, _pairs(wanted), is_free)
        for had, wanted, is_free in zip(
            (active, standby, warmup),
            target.tasks.kinds(),
            (is_free_as_active, is_free_as_standby, is_free_as_warmup),
            strict=True,
        )
    ]


def _difference(had: set[_Task], wanted: set[_Task], is_free: Callable[[_Task], bool]) -> _Difference:
    free = {task for task in wanted - had if is_free(task)}
    return _Difference(had, had & wanted, had - wanted, free, waits=free != wanted - had)


def _change_kinds(differences: Sequence[_Difference], target: TaskTarget, has_to_revoke: Callable[[], TaskSet]) -> None:
    """Change `differences`, one each for active, standby and warm-up tasks, so that tasks which the member already has in another kind
    change their kind without a revocation (Kafka 4.4). `has_to_revoke` returns the tasks that the member must revoke first.
    """
    active, standby, warmup = differences
    for before, after in ((active, standby), (standby, warmup), (warmup, standby)):
        changed = after.assigned & before.had
        after.assigned -= changed
        after.kept |= changed
        if before is not active:
            before.revoked -= changed
    wanted = _pairs(target.tasks.active)
    for replicas in (standby, warmup):
        replicas.revoked -= wanted
    granted = set[_Task]() if has_to_revoke() else active.assigned
    for replicas in (standby, warmup):
        replicas.kept |= replicas.had & wanted - granted


def _pairs(tasks: Tasks) -> set[_Task]:
    return {(subtopology_id, partition) for subtopology_id, partitions in tasks.items() for partition in partitions}


def _task_set(kinds: Iterable[set[_Task]]) -> TaskSet:
    return TaskSet(*(_tasks(pairs) for pairs in kinds))


def _tasks(pairs: set[_Task]) -> Tasks:
    by_subtopology = groupby(sorted(pairs), key=lambda task: task[0])
    return {subtopology_id: frozenset(partition for _, partition in tasks) for subtopology_id, tasks in by_subtopology}


def _moved(member: StreamsMember, state: StreamsMemberState, epoch: int, assigned: TaskSet, revoked: TaskSet) -> StreamsMember:
    """Return the member in the new state. The epoch that it has now becomes its previous epoch; requests with the previous epoch are still
    accepted, because the response with the new one may be lost.
    """
    after = replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, pending_revocation=revoked)
    active = after.held_tasks().active
    epochs = {task: epoch for task, epoch in member.epochs.items() if task[1] in active.get(task[0], frozenset())}
    return replace(after, epochs=epochs)

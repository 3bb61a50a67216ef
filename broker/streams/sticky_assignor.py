"""Kafka's assignor `sticky`, which assigns the tasks of a topology to the members of a streams group.

Invariants:

* Each task is active on exactly one member. A stateful task has as many standby tasks as configured, fewer if there are too few processes:
  a process has a task at most once.
* A member keeps the active tasks of its previous target assignment up to its share of all tasks. Otherwise a member with the task's standby
  becomes active, because it has the state. Other tasks go to the process with the fewest tasks per member. There are no warm-up tasks.
* Members, processes and tasks are processed in the order of Java's collections, so that equal groups get equal assignments from Kafka and
  Ottla.

Source: Kafka's StickyTaskAssignor, ProcessState.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.broker.core.java_hash import in_hash_order, string_hash
from ottla.broker.core.java_heap import JavaHeap
from ottla.broker.streams.internal_topics import Subtopologies
from ottla.broker.streams.tasks import Tasks, TaskSet


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member's part of the assignor's input: its process id, and its previous tasks in `before`. These are the tasks of its previous
    target assignment or, since Kafka 4.4, its current tasks."""

    process_id: str
    before: TaskSet = field(default_factory=TaskSet)
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By (subtopology, partition), the changelog offset up to which the member says that it has the task's state on its disk."""


class _Task(NamedTuple):
    partition: int
    subtopology_id: str


class _Holder(NamedTuple):
    """A member that had a certain task in the previous assignment, with its process."""

    process: _Process
    member_id: str


def assign(
    members: Mapping[str, MemberSpec], subtopologies: Subtopologies, standby_replicas: int, *, by_offsets: bool = False
) -> dict[str, TaskSet]:
    """Return each member's tasks. `by_offsets` selects the rules of Kafka 4.4.

    By these rules, a member is also a candidate for a task if it reports a changelog offset of the task's state, and not only if it had the
    task as a standby task. Among equally loaded candidates, those that had the standby task come first, then those with a higher offset.
    Equally loaded processes are ordered as in Kafka 4.4.
    """
    if not members:
        return {}
    assignment = _Assignment(members, subtopologies, standby_replicas, by_offsets=by_offsets)
    assignment.assign_active()
    assignment.assign_standby()
    return {
        member_id: TaskSet(_compact(process.active[member_id]), _compact(process.standby[member_id]))
        for process in assignment.processes
        for member_id in process.counts
    }


class _Process:
    """The members of one Kafka Streams process, and the tasks assigned to them."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """The number of tasks of each member."""
        self.active: dict[str, list[_Task]] = {}
        self.standby: dict[str, list[_Task]] = {}
        self._tasks: set[_Task] = set()
        self._task_count = 0
        self._by_count: JavaHeap[str] | None = None

    def add_member(self, member_id: str) -> None:
        """Add a member without tasks to the process."""
        self.counts[member_id] = 0
        self.active[member_id], self.standby[member_id] = [], []

    @property
    def load(self) -> float:
        """The average number of tasks per member of the process."""
        return self._task_count / len(self.counts)

    def has(self, task: _Task) -> bool:
        """Return whether the task is assigned to a member of this process, as active or standby task."""
        return task in self._tasks

    def give(self, member_id: str, task: _Task, given: dict[str, list[_Task]]) -> int:
        """Assign a task to a member of this process, and return the member's number of tasks. `given` is this object's `active` or
        `standby`, to which the task is added."""
        self._by_count = None
        return self._give(member_id, task, given)

    def give_least_loaded(self, task: _Task, given: dict[str, list[_Task]]) -> int:
        """Assign a task to the member of this process that has the fewest tasks, and return its number of tasks. `given` is this object's
        `active` or `standby`, to which the task is added."""
        if self._by_count is None:
            self._by_count = JavaHeap(in_hash_order(self.counts, string_hash), self.counts.__getitem__)
        member_id = self._by_count.pop()
        count = self._give(member_id, task, given)
        self._by_count.push(member_id)
        return count

    def _give(self, member_id: str, task: _Task, given: dict[str, list[_Task]]) -> int:
        given[member_id].append(task)
        self._tasks.add(task)
        self._task_count += 1
        self.counts[member_id] += 1
        return self.counts[member_id]


class _Quota:
    """Computes the `share`: the greatest number of previous tasks that a member may keep.

    The share is the number of tasks divided by the number of members, rounded up. A member that has reached the share is excluded from this
    calculation together with its tasks.
    """

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members

    @property
    def share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def note(self, count: int) -> None:
        """Record that a member now has `count` tasks. If `count` equals the share, exclude the member and its tasks from the share."""
        if count == self.share:
            self._tasks -= count
            self._members -= 1


class _Assignment:
    """One computation of an assignment: the processes with the tasks assigned so far, and the members that had each task before."""

    def __init__(self, members: Mapping[str, MemberSpec], subtopologies: Subtopologies, standby_replicas: int, *, by_offsets: bool) -> None:
        self._by_offsets = by_offsets
        self._standby_replicas = standby_replicas
        self._active_tasks = _tasks_of(subtopologies)
        self._stateful_tasks = _tasks_of({name: one for name, one in subtopologies.items() if one.is_stateful}) if standby_replicas else []
        self._active_quota = _Quota(len(self._active_tasks), len(members))
        self._quota = _Quota(len(self._active_tasks) + standby_replicas * len(self._stateful_tasks), len(members))
        self._was_active: dict[_Task, _Holder] = {}
        self._was_standby: dict[_Task, list[_Holder]] = {}
        candidates: dict[_Task, list[tuple[bool, int, _Holder]]] = {}
        processes: dict[str, _Process] = {}
        for member_id in in_hash_order(members, string_hash):
            member = members[member_id]
            process = processes.setdefault(member.process_id, _Process())
            process.add_member(member_id)
            holder = _Holder(process, member_id)
            self._was_active.update(dict.fromkeys(_each(member.before.active), holder))
            standby = dict.fromkeys(_each(member.before.standby))
            offsets = {_Task(partition, name): offset for (name, partition), offset in member.offsets.items()} if by_offsets else {}
            for task in dict.fromkeys([*standby, *offsets]):
                candidates.setdefault(task, []).append((task not in standby, -offsets.get(task, 0), holder))
        for task, ranked in candidates.items():
            self._was_standby[task] = [holder for _, _, holder in sorted(ranked, key=lambda candidate: candidate[:2])]
        inserted = [members[member_id].process_id for member_id in in_hash_order(members, string_hash)]
        order = in_hash_order(inserted, string_hash, len(members), if_absent=by_offsets)
        self.processes = [processes[process_id] for process_id in order]

    def assign_active(self) -> None:
        """Assign every active task: to the member that had it, else to a member that had its standby, else to the least loaded process."""
        rest = []
        for task in sorted(self._active_tasks):
            if not self._keep_active(task, self._was_active.get(task)):
                rest.append(task)
        rest = [task for task in rest if not self._keep_active(task, _least_loaded(self._was_standby.get(task, ())))]
        by_load = JavaHeap(self.processes, lambda process: process.load)
        for task in sorted(rest, key=_by_subtopology):
            process = by_load.pop()
            count = process.give_least_loaded(task, process.active)
            self._active_quota.note(count)
            self._quota.note(count)
            by_load.push(process)

    def _keep_active(self, task: _Task, holder: _Holder | None) -> bool:
        if holder is None or holder.process.counts[holder.member_id] >= self._active_quota.share:
            return False
        count = holder.process.give(holder.member_id, task, holder.process.active)
        self._active_quota.note(count)
        self._quota.note(count)
        return True

    def assign_standby(self) -> None:
        """Assign the standby tasks of every stateful task: to members that had the task, the rest to the least loaded processes."""
        missing: dict[_Task, int] = {}
        for task in sorted(self._stateful_tasks, reverse=True):
            for given in range(self._standby_replicas):
                if not (self._keep_standby(task, self._was_active.get(task)) or self._keep_standby(task, self._least_loaded_without(task))):
                    missing[task] = self._standby_replicas - given
                    break
        by_load = JavaHeap(self.processes, lambda process: process.load)
        for task in sorted(missing, key=_by_subtopology, reverse=True):
            for _ in range(missing[task]):
                if not self._give_standby(task, by_load):
                    break

    def _least_loaded_without(self, task: _Task) -> _Holder | None:
        holders = self._was_standby.get(task, ())
        if self._by_offsets:
            return _least_loaded([holder for holder in holders if not holder.process.has(task)])
        return _least_loaded(holders, task)

    def _keep_standby(self, task: _Task, holder: _Holder | None) -> bool:
        if holder is None or holder.process.has(task) or holder.process.counts[holder.member_id] >= self._quota.share:
            return False
        self._quota.note(holder.process.give(holder.member_id, task, holder.process.standby))
        return True

    def _give_standby(self, task: _Task, by_load: JavaHeap[_Process]) -> bool:
        """Assign a standby task to the least loaded process that does not have the task. Return False if every process has it."""
        passed = [by_load.pop()]
        while passed[-1].has(task) and len(by_load):
            passed.append(by_load.pop())
        process = passed[-1]
        lacks = not process.has(task)
        if lacks:
            self._quota.note(process.give_least_loaded(task, process.standby))
        for one in reversed(passed):
            by_load.push(one)
        return lacks


def _least_loaded(holders: Iterable[_Holder], task: _Task | None = None) -> _Holder | None:
    """Return the least loaded of `holders`, by the load of its process and its own number of tasks; None if there are no holders.

    If `task` is given, return None if the first holder's process already has it, even if another holder's has not: Kafka checks only the
    first.
    """
    first = found = next(iter(holders), None)
    if first is None or found is None:
        return None
    for holder in holders:
        if (
            holder.process.load < found.process.load
            and (task is None or not holder.process.has(task))
            and holder.process.counts[holder.member_id] < found.process.counts[found.member_id]
        ):
            found = holder
    return None if task is not None and first.process.has(task) else found


def _tasks_of(subtopologies: Subtopologies) -> list[_Task]:
    return [_Task(partition, name) for name, one in subtopologies.items() for partition in range(one.number_of_tasks)]


def _each(tasks: Tasks) -> list[_Task]:
    return [_Task(partition, name) for name, partitions in tasks.items() for partition in partitions]


def _by_subtopology(task: _Task) -> tuple[str, int]:
    return task.subtopology_id, task.partition


def _compact(tasks: Iterable[_Task]) -> Tasks:
    found: dict[str, frozenset[int]] = {}
    for task in tasks:
        found[task.subtopology_id] = found.get(task.subtopology_id, frozenset()) | {task.partition}
    return found

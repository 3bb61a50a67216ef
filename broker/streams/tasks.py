"""The tasks that a member of a streams group has or is to have: active, standby and warm-up tasks (Kafka's TasksTuple).

A task is a subtopology and a partition number. A subtopology without tasks is absent, so that equal sets compare equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Tasks = Mapping[str, frozenset[int]]
"""Task numbers (partitions) by subtopology id; no set is empty."""


class _TaskIds(Protocol):
    @property
    def subtopology_id(self) -> str: ...
    @property
    def partitions(self) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of a streams group's member, by kind: active, standby and warm-up."""

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def kinds(self) -> tuple[Tasks, Tasks, Tasks]:
        """Return the active, standby and warm-up tasks."""
        return self.active, self.standby, self.warmup

    def intersects(self, other: TaskSet) -> bool:
        """Return whether a task is in both sets with the same kind: active, standby or warm-up."""
        return any(
            partitions & others.get(subtopology_id, frozenset())
            for mine, others in zip(self.kinds(), other.kinds(), strict=True)
            for subtopology_id, partitions in mine.items()
        )

    def is_subset_of(self, other: TaskSet) -> bool:
        return all(
            partitions <= others.get(subtopology_id, frozenset())
            for mine, others in zip(self.kinds(), other.kinds(), strict=True)
            for subtopology_id, partitions in mine.items()
        )

    def united(self, other: TaskSet) -> TaskSet:
        return TaskSet(*(united(mine, others) for mine, others in zip(self.kinds(), other.kinds(), strict=True)))


def united(tasks: Tasks, others: Tasks) -> Tasks:
    """Return the tasks of one kind that are in either of two sets."""
    none: frozenset[int] = frozenset()
    return {one: tasks.get(one, none) | others.get(one, none) for one in [*tasks, *(one for one in others if one not in tasks)]}


def tasks_from(listed: Iterable[_TaskIds]) -> Tasks:
    """Return the tasks that a record or a request lists: partition numbers by subtopology id."""
    tasks: dict[str, frozenset[int]] = {}
    for one in listed:
        if one.partitions:
            tasks[one.subtopology_id] = tasks.get(one.subtopology_id, frozenset()) | frozenset(one.partitions)
    return tasks


def sorted_tasks(tasks: Tasks) -> Iterator[tuple[str, list[int]]]:
    """Yield each subtopology id with its partitions, both in ascending order, as a record lists them."""
    for subtopology_id, partitions in sorted(tasks.items()):
        yield subtopology_id, sorted(partitions)

from __future__ import annotations

import pytest

from ottla.broker.streams.tasks import TaskSet, sorted_tasks, tasks_from
from ottla.protocol.messages.streams_group import TaskIds

SOME = TaskSet({"0": frozenset({0, 1})}, {"1": frozenset({2})})


def test_only_a_set_with_tasks_is_true() -> None:
    assert SOME
    assert not TaskSet()


@pytest.mark.parametrize(
    ("other", "shares", "contains"),
    [
        (TaskSet({"0": frozenset({1})}), True, True),
        (TaskSet({"0": frozenset({1, 2})}), True, False),
        (TaskSet({}, {"0": frozenset({1})}), False, False),
        (TaskSet({}, {"1": frozenset({2})}), True, True),
        (TaskSet(), False, True),
    ],
)
def test_tasks_are_compared_kind_by_kind(other: TaskSet, shares: bool, contains: bool) -> None:
    assert SOME.intersects(other) is other.intersects(SOME) is shares
    assert other.is_subset_of(SOME) is contains


def test_a_union_has_the_tasks_of_both() -> None:
    both = SOME.united(TaskSet({"0": frozenset({5}), "2": frozenset({0})}, {}, {"0": frozenset({7})}))
    assert both == TaskSet({"0": frozenset({0, 1, 5}), "2": frozenset({0})}, {"1": frozenset({2})}, {"0": frozenset({7})})


def test_a_list_of_tasks_is_read_and_written_sorted() -> None:
    tasks = tasks_from([TaskIds("b", [2, 1]), TaskIds("a", [3]), TaskIds("c", []), TaskIds("b", [0])])
    assert tasks == {"a": frozenset({3}), "b": frozenset({0, 1, 2})}
    assert list(sorted_tasks(tasks)) == [("a", [3]), ("b", [0, 1, 2])]

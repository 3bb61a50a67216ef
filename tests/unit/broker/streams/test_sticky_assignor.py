from __future__ import annotations

import pytest

from ottla.broker.streams.internal_topics import ConfiguredSubtopology, InternalTopic
from ottla.broker.streams.sticky_assignor import MemberSpec, assign
from ottla.broker.streams.tasks import Tasks, TaskSet

STATEFUL = {"0": ConfiguredSubtopology(4, state_changelog_topics={"store": InternalTopic("store", 4, 0, {})})}
STATELESS = {"0": ConfiguredSubtopology(4)}


def members(*names: str, before: dict[str, TaskSet] | None = None) -> dict[str, MemberSpec]:
    """Return members named `process/member`, with the tasks that they had `before`."""
    return {name: MemberSpec(name.split("/")[0], (before or {}).get(name, TaskSet())) for name in names}


def count(tasks: Tasks) -> int:
    return sum(map(len, tasks.values()))


def test_tasks_are_divided_evenly_among_processes_and_their_members() -> None:
    targets = assign(members("p/1", "p/2", "q/1", "q/2"), STATELESS, 0)
    assert [count(tasks.active) for tasks in targets.values()] == [1, 1, 1, 1]
    assert set().union(*(tasks.active["0"] for tasks in targets.values())) == {0, 1, 2, 3}


def test_members_keep_their_tasks_when_another_joins() -> None:
    before = assign(members("p/1", "q/1"), STATELESS, 0)
    after = assign(members("p/1", "q/1", "r/1", before=before), STATELESS, 0)
    assert [len(after[name].active["0"] & before[name].active["0"]) for name in before] == [2, 1]
    assert count(after["r/1"].active) == 1


def test_a_standby_task_is_on_another_process() -> None:
    targets = assign(members("p/1", "q/1"), STATEFUL, 1)
    assert targets["p/1"].standby == targets["q/1"].active
    assert targets["q/1"].standby == targets["p/1"].active


def test_a_process_has_no_second_copy_of_a_task_however_many_are_configured() -> None:
    targets = assign(members("p/1", "p/2", "q/1", "q/2"), STATEFUL, 3)
    for process in "pq":
        mine = [tasks for name, tasks in targets.items() if name.startswith(process)]
        assert sorted(n for tasks in mine for kind in tasks.kinds() for n in kind.get("0", ())) == [0, 1, 2, 3]


def test_a_standby_task_becomes_active_when_its_active_member_is_gone() -> None:
    before = assign(members("p/1", "q/1", "r/1"), STATEFUL, 1)
    lost = before["r/1"].active["0"]
    after = assign(members("p/1", "q/1", before=before), STATEFUL, 1)
    for name in ("p/1", "q/1"):
        assert before[name].standby["0"] & lost <= after[name].active["0"]


def test_a_stateless_subtopology_has_no_standby_tasks() -> None:
    assert not any(tasks.standby for tasks in assign(members("p/1", "q/1"), STATELESS, 1).values())


def test_a_group_without_members_has_no_assignment() -> None:
    assert assign({}, STATELESS, 1) == {}


def test_a_task_that_moves_goes_to_the_member_with_the_highest_offset() -> None:
    offsets = {"p/1": {("0", 0): 9, ("0", 1): 1}, "q/1": {("0", 0): 1, ("0", 1): 9}, "r/1": {}}
    specs = {name: MemberSpec(name.split("/")[0], offsets=given) for name, given in offsets.items()}
    after = assign(specs, STATEFUL, 0, by_offsets=True)
    assert 0 in after["p/1"].active["0"]
    assert 1 in after["q/1"].active["0"]
    swapped = {"p/1": specs["q/1"], "q/1": specs["p/1"], "r/1": specs["r/1"]}
    assert 1 in assign(swapped, STATEFUL, 0, by_offsets=True)["p/1"].active["0"]


def test_a_member_with_the_standby_task_comes_before_one_with_a_higher_offset() -> None:
    specs = {
        "p/1": MemberSpec("p", TaskSet(standby={"0": frozenset({0})}), {("0", 0): 1}),
        "q/1": MemberSpec("q", offsets={("0", 0): 9}),
    }
    assert 0 in assign(specs, STATEFUL, 0, by_offsets=True)["p/1"].active["0"]


@pytest.mark.parametrize(("by_offsets", "holder"), [(False, "s0/1"), (True, "z/1")])
def test_a_standby_task_stays_although_another_candidate_has_become_active(by_offsets: bool, holder: str) -> None:
    """Up to Kafka 4.3, no candidate is examined after the first one whose process already has the task."""
    had = TaskSet(standby={"0": frozenset({0})})
    before = {"a/1": had, "z/1": had, "s0/1": TaskSet()}
    after = assign(members(*before, before=before), STATEFUL, 1, by_offsets=by_offsets)
    assert 0 in after["a/1"].active["0"]
    assert [name for name, tasks in after.items() if 0 in tasks.standby.get("0", ())] == [holder]


@pytest.mark.parametrize(("by_offsets", "holder"), [(False, "a/1"), (True, "b/1")])
def test_a_task_goes_to_the_first_of_equally_loaded_processes_in_the_order_of_the_release(by_offsets: bool, holder: str) -> None:
    after = assign(members("a/1", "b/1"), {"0": ConfiguredSubtopology(1)}, 0, by_offsets=by_offsets)
    assert [name for name, tasks in after.items() if tasks.active] == [holder]

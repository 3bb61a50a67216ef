"""Reconciliation of streams members, with the cases of Kafka's CurrentAssignmentBuilderTest (streams)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.streams_member import StreamsMember, StreamsMemberState
from ottla.broker.groups.streams_reconciliation import TaskTarget, reconcile
from ottla.broker.streams.tasks import TaskSet
from tests.support.streams_groups import active


class Holders:
    """The processes that own each active task of subtopology `0`, and those that have its standby or warm-up tasks, by partition."""

    def __init__(self, held: dict[int, str] | None = None, replicas: dict[int, str] | None = None) -> None:
        self.held, self.replicas = held or {}, replicas or {}

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        return self.held.get(partition)

    def has_replica(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        return self.replicas.get(partition) == process_id


def member(epoch: int, assigned: TaskSet, **changes: Any) -> StreamsMember:
    epochs = {("0", partition): epoch for partition in assigned.active.get("0", ())}
    return StreamsMember(member_id="m", process_id="p", epoch=epoch, previous_epoch=epoch, assigned=assigned, epochs=epochs, **changes)


def target(epoch: int, tasks: TaskSet, holders: Holders | None = None) -> TaskTarget:
    return TaskTarget(epoch, tasks, holders or Holders())


def test_a_member_in_the_targets_epoch_is_left_alone() -> None:
    settled = member(2, active(0))
    assert reconcile(settled, target(2, active(0, 1)), None) is settled


def test_free_tasks_are_assigned_in_the_targets_epoch() -> None:
    after = reconcile(member(1, active(0)), target(3, active(0, 1)), None)
    assert (after.epoch, after.previous_epoch, after.state, after.assigned) == (3, 1, StreamsMemberState.STABLE, active(0, 1))
    assert after.epochs == {("0", 0): 1, ("0", 1): 3}


def test_tasks_outside_the_target_are_revoked_first() -> None:
    after = reconcile(member(1, active(0, 1)), target(3, active(1, 2)), None)
    assert (after.epoch, after.state) == (1, StreamsMemberState.UNREVOKED_TASKS)
    assert (after.assigned, after.pending_revocation) == (active(1), active(0))
    assert after.epochs == {("0", 0): 1, ("0", 1): 1}


@pytest.mark.parametrize("owned", [None, active(0, 1)])
def test_a_member_that_has_not_confirmed_the_revocation_waits(owned: TaskSet | None) -> None:
    before = member(1, active(1), state=StreamsMemberState.UNREVOKED_TASKS, pending_revocation=active(0))
    assert reconcile(before, target(3, active(1, 2)), owned) is before


def test_a_member_that_has_confirmed_the_revocation_gets_the_rest() -> None:
    before = member(1, active(1), state=StreamsMemberState.UNREVOKED_TASKS, pending_revocation=active(0))
    after = reconcile(before, target(3, active(1, 2)), active(1))
    assert (after.epoch, after.state, after.assigned) == (3, StreamsMemberState.STABLE, active(1, 2))
    assert not after.pending_revocation


def test_a_target_that_moved_meanwhile_is_revoked_in_the_next_epoch() -> None:
    before = member(1, active(1), state=StreamsMemberState.UNREVOKED_TASKS, pending_revocation=active(0))
    after = reconcile(before, target(5, active(2)), active(1))
    assert (after.epoch, after.state, after.pending_revocation) == (2, StreamsMemberState.UNREVOKED_TASKS, active(1))


@pytest.mark.parametrize("process", ["q", "p"], ids=["another process", "another member of the process"])
def test_an_active_task_that_is_held_is_waited_for(process: str) -> None:
    waiting = reconcile(member(1, active()), target(2, active(0, 1), Holders({0: process})), None)
    assert (waiting.epoch, waiting.state, waiting.assigned) == (2, StreamsMemberState.UNRELEASED_TASKS, active(1))
    after = reconcile(waiting, target(2, active(0, 1)), active(1))
    assert (after.state, after.assigned) == (StreamsMemberState.STABLE, active(0, 1))


def test_a_process_gets_an_active_task_when_it_has_released_its_standby_task() -> None:
    before = member(1, TaskSet())
    assert reconcile(before, target(2, active(0), Holders(replicas={0: "p"})), None).state is StreamsMemberState.UNRELEASED_TASKS
    assert reconcile(before, target(2, active(0), Holders(replicas={0: "q"})), None).state is StreamsMemberState.STABLE


@pytest.mark.parametrize(("held", "free"), [("p", False), ("q", True)])
def test_a_standby_task_is_free_unless_its_own_process_has_the_task(held: str, free: bool) -> None:
    standby = TaskSet(standby={"0": frozenset({0})})
    for holders in (Holders({0: held}), Holders(replicas={0: held})):
        after = reconcile(member(1, TaskSet()), target(2, standby, holders), None)
        assert (after.state is StreamsMemberState.STABLE) is free
        assert after.assigned == (standby if free else TaskSet())


def test_a_member_in_an_unknown_state_starts_again() -> None:
    unknown = replace(member(1, active(0)), state=StreamsMemberState.UNKNOWN)
    for owned in (None, active(0)):
        with pytest.raises(Rejected, match="unknown state"):
            reconcile(unknown, target(2, active(1)), owned)
    assert reconcile(unknown, target(2, active(1)), TaskSet()).assigned == active(1)


def standby(*partitions: int) -> TaskSet:
    return TaskSet(standby={"0": frozenset(partitions)}) if partitions else TaskSet()


def warmup(partition: int) -> TaskSet:
    return TaskSet(warmup={"0": frozenset({partition})})


def in_place(epoch: int, tasks: TaskSet, holders: Holders) -> TaskTarget:
    return replace(target(epoch, tasks, holders), in_place=True)


def test_a_demoted_task_is_a_standby_task_before_the_active_one_is_released() -> None:
    wanted = in_place(2, standby(0), Holders({0: "p"}))
    demoted = reconcile(member(1, active(0)), wanted, None)
    assert (demoted.epoch, demoted.state) == (1, StreamsMemberState.UNREVOKED_TASKS)
    assert (demoted.assigned, demoted.pending_revocation) == (standby(0), active(0))
    after = reconcile(demoted, replace(wanted, holders=Holders(replicas={0: "p"})), standby(0))
    assert (after.epoch, after.state, after.assigned) == (2, StreamsMemberState.STABLE, standby(0))


def test_a_standby_task_becomes_active_in_one_step_if_the_active_one_is_free() -> None:
    after = reconcile(member(1, standby(0)), in_place(2, active(0), Holders(replicas={0: "p"})), None)
    assert (after.epoch, after.state, after.assigned) == (2, StreamsMemberState.STABLE, active(0))
    assert after.epochs == {("0", 0): 2}


def test_a_standby_task_is_kept_until_the_active_one_is_free() -> None:
    waiting = reconcile(member(1, standby(0)), in_place(2, active(0), Holders({0: "q"}, {0: "p"})), None)
    assert (waiting.epoch, waiting.state, waiting.assigned) == (2, StreamsMemberState.UNRELEASED_TASKS, standby(0))
    after = reconcile(waiting, in_place(2, active(0), Holders(replicas={0: "p"})), None)
    assert (after.state, after.assigned) == (StreamsMemberState.STABLE, active(0))


def test_a_standby_task_is_kept_while_the_member_has_others_to_revoke() -> None:
    before = member(1, active(1).united(standby(0)))
    after = reconcile(before, in_place(2, active(0), Holders({1: "p"}, {0: "p"})), None)
    assert (after.epoch, after.assigned, after.pending_revocation) == (1, standby(0), active(1))


@pytest.mark.parametrize(("had", "wanted"), [(standby(0), warmup(0)), (warmup(0), standby(0))])
def test_a_standby_and_a_warm_up_task_change_into_each_other_without_a_revocation(had: TaskSet, wanted: TaskSet) -> None:
    after = reconcile(member(1, had), in_place(2, wanted, Holders(replicas={0: "p"})), None)
    assert (after.epoch, after.state, after.assigned) == (2, StreamsMemberState.STABLE, wanted)


def test_a_task_of_another_member_of_the_process_does_not_change_in_place() -> None:
    after = reconcile(member(1, TaskSet()), in_place(2, standby(0), Holders({0: "p"})), None)
    assert (after.state, after.assigned) == (StreamsMemberState.UNRELEASED_TASKS, TaskSet())

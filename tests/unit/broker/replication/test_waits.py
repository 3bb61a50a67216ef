from __future__ import annotations

from ottla.broker.replication.waits import Condition, Waits


def test_a_wait_ends_when_its_condition_holds_for_its_offset_and_not_before() -> None:
    waits: Waits[str] = Waits()
    waits.add(Condition.COMMITTED, 4, "first")
    waits.add(Condition.COMMITTED, 9, "second")
    assert waits.reached(Condition.COMMITTED, 4) == []
    assert waits.reached(Condition.COMMITTED, 5) == ["first"]
    assert waits.reached(Condition.COMMITTED, 100) == ["second"]
    assert not waits.queues


def test_one_condition_says_nothing_of_the_other() -> None:
    waits: Waits[str] = Waits()
    waits.add(Condition.ON_DISK, 0, "here")
    waits.add(Condition.COMMITTED, 0, "everywhere")
    assert waits.reached(Condition.ON_DISK, 1) == ["here"]
    assert waits.reached(Condition.ON_DISK, 1) == []
    assert waits.drain(*Condition) == ["everywhere"]


def test_after_a_drain_nobody_waits() -> None:
    waits: Waits[str] = Waits()
    waits.add(Condition.ON_DISK, 0, "a")
    waits.add(Condition.COMMITTED, 3, "b")
    assert sorted(waits.drain(*Condition)) == ["a", "b"]
    assert not waits.queues
    assert waits.reached(Condition.COMMITTED, 100) == []


def test_what_ends_with_one_condition_leaves_those_who_wait_for_another() -> None:
    waits: Waits[str] = Waits()
    waits.add(Condition.COMMITTED, 3, "a coordinator")
    waits.add(Condition.REPLICATED, 3, "a producer")
    assert waits.drain(Condition.COMMITTED) == ["a coordinator"]
    assert waits.reached(Condition.REPLICATED, 4) == ["a producer"]

from __future__ import annotations

from ottla.broker.replication.purgatory import Condition, Purgatory


def test_waiter_is_completed_when_its_condition_reaches_its_offset_and_not_before() -> None:
    purgatory: Purgatory[str] = Purgatory()
    purgatory.add(Condition.COMMITTED, 4, "first")
    purgatory.add(Condition.COMMITTED, 9, "second")
    assert purgatory.reached(Condition.COMMITTED, 4) == []
    assert purgatory.reached(Condition.COMMITTED, 5) == ["first"]
    assert purgatory.reached(Condition.COMMITTED, 100) == ["second"]
    assert not purgatory.queues


def test_reaching_one_condition_does_not_complete_waiters_of_another() -> None:
    purgatory: Purgatory[str] = Purgatory()
    purgatory.add(Condition.IN_OWN_LOG, 0, "here")
    purgatory.add(Condition.COMMITTED, 0, "everywhere")
    assert purgatory.reached(Condition.IN_OWN_LOG, 1) == ["here"]
    assert purgatory.reached(Condition.IN_OWN_LOG, 1) == []
    assert purgatory.drain(*Condition) == ["everywhere"]


def test_drain_removes_every_waiter() -> None:
    purgatory: Purgatory[str] = Purgatory()
    purgatory.add(Condition.IN_OWN_LOG, 0, "a")
    purgatory.add(Condition.COMMITTED, 3, "b")
    assert sorted(purgatory.drain(*Condition)) == ["a", "b"]
    assert not purgatory.queues
    assert purgatory.reached(Condition.COMMITTED, 100) == []


def test_draining_one_condition_keeps_waiters_of_another() -> None:
    purgatory: Purgatory[str] = Purgatory()
    purgatory.add(Condition.COMMITTED, 3, "a coordinator")
    purgatory.add(Condition.REPLICATED, 3, "a producer")
    assert purgatory.drain(Condition.COMMITTED) == ["a coordinator"]
    assert purgatory.reached(Condition.REPLICATED, 4) == ["a producer"]

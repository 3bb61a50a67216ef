from __future__ import annotations

from ottla.broker.groups.deadlines import DeadlineKind, Deadlines


def test_due_deadlines_are_returned_once_in_order() -> None:
    deadlines = Deadlines()
    deadlines.set(DeadlineKind.SESSION, "late", 30)
    deadlines.set(DeadlineKind.SESSION, "b", 20)
    deadlines.set(DeadlineKind.REBALANCE, "a", 10, epoch=3)
    assert deadlines.next_ms == 10
    assert [(due.member_id, due.kind, due.epoch) for due in deadlines.take_due(20)] == [
        ("a", DeadlineKind.REBALANCE, 3),
        ("b", DeadlineKind.SESSION, -1),
    ]
    assert deadlines.take_due(20) == []
    assert deadlines.next_ms == 30


def test_a_postponed_deadline_is_not_missed() -> None:
    deadlines = Deadlines()
    deadlines.set(DeadlineKind.SESSION, "m", 10)
    deadlines.set(DeadlineKind.SESSION, "m", 20)
    assert deadlines.next_ms == 10
    assert deadlines.take_due(10) == []
    assert deadlines.next_ms == 20


def test_set_if_absent_does_not_move_a_deadline() -> None:
    deadlines = Deadlines()
    deadlines.set_if_absent(DeadlineKind.JOIN, "m", 10)
    deadlines.set_if_absent(DeadlineKind.JOIN, "m", 20)
    assert deadlines.get(DeadlineKind.JOIN, "m") == 10
    deadlines.cancel(DeadlineKind.JOIN, "m")
    assert deadlines.take_due(100) == []
    assert deadlines.next_ms is None

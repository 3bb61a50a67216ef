from __future__ import annotations

import pytest

from ottla.broker.core import limits
from ottla.broker.core.timers import Timers


def test_timers_run_in_deadline_order_and_ties_in_scheduling_order() -> None:
    timers, ran = Timers(), []
    for deadline, name in [(30, "c"), (10, "a"), (20, "b1"), (20, "b2")]:
        timers.schedule(deadline, lambda name=name: ran.append(name))
    assert timers.run_due(20) == 3
    assert ran == ["a", "b1", "b2"]
    assert timers.next_deadline() == 30


def test_no_timer_runs_before_its_deadline() -> None:
    timers, ran = Timers(), []
    timers.schedule(10, lambda: ran.append(1))
    assert timers.run_due(9) == 0
    assert ran == []


def test_a_cancelled_timer_never_runs_and_has_no_deadline() -> None:
    timers, ran = Timers(), []
    handle = timers.schedule(10, lambda: ran.append(1))
    handle.cancel()
    handle.cancel()
    assert timers.next_deadline() is None
    assert timers.run_due(100) == 0
    assert ran == []
    assert len(timers) == 0


def test_cancelling_a_timer_that_ran_has_no_effect() -> None:
    timers = Timers()
    handle = timers.schedule(1, lambda: None)
    timers.schedule(2, lambda: None)
    timers.run_due(1)
    handle.cancel()
    assert len(timers) == 1


def test_cancelled_timers_do_not_accumulate_in_the_heap() -> None:
    timers = Timers()
    keep = timers.schedule(1_000_000, lambda: None)
    for deadline in range(10_000):
        timers.schedule(500_000 + deadline, lambda: None).cancel()
    assert keep.active
    assert len(timers) == 1
    assert timers.held < 300


def test_a_bounded_run_leaves_the_remaining_timers_for_the_next_turn() -> None:
    timers, ran = Timers(), []
    for number in range(5):
        timers.schedule(number, lambda number=number: ran.append(number))
    assert timers.run_due(10, max_callbacks=2) == 2
    assert ran == [0, 1]
    assert timers.run_due(10) == 3


def test_a_due_timer_that_a_callback_schedules_runs_in_the_same_call() -> None:
    timers, ran = Timers(), []
    timers.schedule(1, lambda: timers.schedule(0, lambda: ran.append("second")))
    timers.run_due(5)
    assert ran == ["second"]


def test_on_earlier_is_called_only_for_an_earlier_deadline() -> None:
    timers, notified = Timers(), []
    timers.on_earlier = lambda: notified.append(timers.next_deadline())
    timers.schedule(50, lambda: None)
    timers.schedule(60, lambda: None)
    timers.schedule(40, lambda: None)
    assert notified == [50, 40]


def test_a_failing_callback_is_retried_logged_once_and_does_not_stop_others(caplog: pytest.LogCaptureFixture) -> None:
    timers, ran, notified = Timers(), [], []
    timers.on_error = notified.append

    def work() -> None:
        ran.append("work")
        if len(ran) < 3:
            raise ValueError("a bug")

    timers.schedule(10, work)
    timers.schedule(10, lambda: ran.append("other"))
    assert timers.run_due(10) == 2
    assert ran == ["work", "other"]
    assert timers.next_deadline() == 10 + limits.TIMER_RETRY_MS
    timers.run_due(10 + limits.TIMER_RETRY_MS)
    assert ran == ["work", "other", "work"]
    assert timers.next_deadline() is None
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [ValueError]
    assert len(notified) == 1


def _bug() -> None:
    raise ValueError("a bug")


def test_repeated_failures_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    timers, notified = Timers(), []
    timers.on_error = notified.append
    timers.schedule(0, _bug)
    for count in range(5):
        timers.run_due(count * limits.TIMER_RETRY_MS)
    assert (len(notified), len(caplog.records)) == (5, 1)


def test_a_failed_timer_can_be_cancelled() -> None:
    timers = Timers()
    handle = timers.schedule(10, _bug)
    timers.run_due(10)
    assert handle.active
    handle.cancel()
    assert timers.next_deadline() is None


def test_a_periodic_timer_survives_a_failure() -> None:
    timers, ran = Timers(), []

    def work() -> None:
        ran.append(1)
        if len(ran) == 1:
            raise ValueError("a bug")
        timers.schedule(len(ran) * 1_000_000, work)

    timers.schedule(10, work)
    for now_ms in (10, 10 + limits.TIMER_RETRY_MS, 2_000_000):
        timers.run_due(now_ms)
    assert len(ran) == 3

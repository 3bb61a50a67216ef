from __future__ import annotations

import pytest

from ottla.broker.core.clock import AHEAD_MS_MAX, Clock, MovableClock, VirtualClock


def test_both_clocks_go_forward_together() -> None:
    clock, plain = MovableClock(), Clock()
    clock.advance(3_600_000)
    assert clock.ahead_ms == 3_600_000
    assert clock.now_ms() - plain.now_ms() + 1_000 >= 3_600_000
    assert clock.mono_ms() - plain.mono_ms() + 1_000 >= 3_600_000


def test_a_clock_is_never_put_back() -> None:
    clock = MovableClock()
    with pytest.raises(ValueError, match="forward only"):
        clock.advance(-1)
    assert clock.ahead_ms == 0


def test_a_clock_stays_within_times_that_a_record_can_carry() -> None:
    clock = MovableClock()
    clock.advance(AHEAD_MS_MAX)
    with pytest.raises(ValueError, match="thousand years"):
        clock.advance(1)
    assert clock.ahead_ms == AHEAD_MS_MAX


def test_who_wants_to_know_is_told_after_the_move() -> None:
    clock = MovableClock()
    seen: list[int] = []

    def first() -> None:
        seen.append(clock.ahead_ms)

    def second() -> None:
        seen.append(-clock.ahead_ms)

    clock.add_listener(first)
    clock.add_listener(second)
    clock.advance(5)
    clock.remove_listener(first)
    clock.advance(7)
    assert seen == [5, -5, -12]


def test_a_virtual_clock_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(now_ms=1_000)
    assert (clock.now_ms(), clock.mono_ms()) == (1_000, 0)
    clock.advance(5)
    assert (clock.now_ms(), clock.mono_ms()) == (1_005, 5)

from __future__ import annotations

import pytest

from ottla.broker.core.clock import AHEAD_MS_MAX, Clock, MovableClock, VirtualClock


def test_advance_moves_both_clocks_by_the_same_time() -> None:
    clock, plain = MovableClock(), Clock()
    clock.advance(3_600_000)
    assert clock.ahead_ms == 3_600_000
    assert clock.now_ms() - plain.now_ms() + 1_000 >= 3_600_000
    assert clock.mono_ms() - plain.mono_ms() + 1_000 >= 3_600_000


def test_advance_rejects_a_negative_step() -> None:
    clock = MovableClock()
    with pytest.raises(ValueError, match="only be advanced"):
        clock.advance(-1)
    assert clock.ahead_ms == 0


def test_advance_is_limited_to_times_that_a_record_can_store() -> None:
    clock = MovableClock()
    clock.advance(AHEAD_MS_MAX)
    with pytest.raises(ValueError, match="thousand years"):
        clock.advance(1)
    assert clock.ahead_ms == AHEAD_MS_MAX


def test_listeners_are_called_after_the_clock_advanced() -> None:
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


def test_a_virtual_clock_stands_still_until_it_is_advanced() -> None:
    clock = VirtualClock(now_ms=1_000)
    assert (clock.now_ms(), clock.mono_ms()) == (1_000, 0)
    clock.advance(5)
    assert (clock.now_ms(), clock.mono_ms()) == (1_005, 5)

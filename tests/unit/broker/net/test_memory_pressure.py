from __future__ import annotations

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.net.memory_pressure import MemoryPressure
from ottla.broker.net.session import ByteBudget

LIMIT, LARGEST = 16_000, 4_000


class Holder:
    """A connection as MemoryPressure sees it; `move` simulates the arrival of data from its peer."""

    def __init__(self, harness: Harness, held: int) -> None:
        self._harness = harness
        self.held = self._moved = 0
        self.waits_for_memory = False
        self.move(held)

    def move(self, size: int) -> None:
        self.held += size
        self._moved += size
        self._harness.budget.used += size

    def held_bytes(self) -> int:
        return self.held

    def moved_bytes(self) -> int:
        moved, self._moved = self._moved, 0
        return moved

    def abort(self) -> None:
        self._harness.closed.append(self)
        self._harness.budget.used -= self.held
        self.held = 0


class Harness:
    def __init__(self, *held: int) -> None:
        self.clock, self.timers, self.budget = VirtualClock(), Timers(), ByteBudget(LIMIT)
        self.closed: list[Holder] = []
        self.woken = 0
        self.memory_pressure = MemoryPressure(self.budget, LARGEST, self.timers, self.clock.mono_ms, self.wake)
        self.holders = [Holder(self, size) for size in held]

    def wake(self) -> None:
        self.woken += 1

    def is_short(self) -> None:
        self.memory_pressure.memory_is_short(self.holders)

    def look(self) -> None:
        self.clock.advance(limits.SLOW_CHECK_MS)
        self.timers.run_due(self.clock.mono_ms())

    @property
    def closed_ones(self) -> list[int]:
        return [self.holders.index(holder) for holder in self.closed]


def test_the_largest_slow_connections_are_closed_until_part_of_the_budget_is_free() -> None:
    harness = Harness(100, 3_000, 9_000, 2_000, 2_000)
    harness.is_short()
    harness.holders[2].move(9_000 // 8)
    harness.look()
    assert harness.closed_ones == [1, 3]
    assert harness.budget.used <= LIMIT - LIMIT // limits.FREED_PART
    assert harness.woken == 1


def test_connections_that_wait_for_memory_are_closed_last() -> None:
    harness = Harness(2_000, 8_000, 3_000, 7_000)
    for waiting in (1, 3):
        harness.holders[waiting].waits_for_memory = True
    harness.is_short()
    harness.look()
    assert harness.closed_ones == [2, 0, 1]


def test_no_connection_is_closed_while_all_deliver() -> None:
    harness = Harness(8_000, 7_000, 1_000)
    harness.is_short()
    for _ in range(3):
        for holder in harness.holders:
            holder.move(holder.held // 14)
        harness.look()
    assert harness.closed == []


def test_a_byte_now_and_then_does_not_count_as_delivering() -> None:
    harness = Harness(8_000, 8_000)
    harness.is_short()
    for holder in harness.holders:
        holder.move(1)
    harness.look()
    assert harness.closed_ones == [0]


def test_data_delivered_before_the_shortage_does_not_count() -> None:
    harness = Harness(16_000)
    harness.is_short()
    harness.look()
    assert harness.closed_ones == [0]


def test_slow_connections_are_closed_although_the_shortage_was_short() -> None:
    harness = Harness(15_000, 1_000)
    harness.is_short()
    harness.holders[1].abort()
    harness.closed.clear()
    harness.look()
    assert harness.closed_ones == [0]


def test_the_watch_lasts_as_long_as_the_shortage() -> None:
    harness = Harness(16_000)
    harness.is_short()
    harness.is_short()
    harness.holders[0].move(2_000)
    harness.look()
    assert harness.closed == []
    harness.look()
    assert harness.closed_ones == [0]
    assert harness.timers.next_deadline() is None


def test_beyond_the_excess_the_largest_are_closed_at_once() -> None:
    harness = Harness(7_000, 9_000, 4_000)
    harness.is_short()
    assert harness.closed == []
    harness.holders[1].move(1)
    harness.is_short()
    assert harness.closed_ones == [1]

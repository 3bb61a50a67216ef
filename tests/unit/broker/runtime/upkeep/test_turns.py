"""Long work is divided into slices, one in each turn of the event loop."""

from __future__ import annotations

import asyncio

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.runtime.upkeep.turns import Turns

SLICE_MS = limits.SLICE_MS


class SpentClock(VirtualClock):
    """A clock whose `spent_ns` the test's work advances."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        super().__init__()
        self.ns = 0

    def spent_ns(self) -> int:
        return self.ns


async def test_work_continues_at_once_within_its_slice() -> None:
    clock, loop_turns, done = SpentClock(), 0, []
    turns = Turns(clock)

    async def work() -> None:
        for number in range(10):
            await turns.wait_for_turn()
            clock.ns += SLICE_MS * 1_000_000 // 5
            done.append(number)

    task = asyncio.ensure_future(work())
    while not task.done():
        before = len(done)
        await asyncio.sleep(0)
        loop_turns += 1
        assert len(done) - before <= 5
    assert done == list(range(10))
    assert loop_turns < 10


async def test_all_owners_share_one_slice_per_turn_of_the_loop() -> None:
    clock, done = SpentClock(), dict.fromkeys("abc", 0)
    turns = Turns(clock)

    async def work(owner: str) -> None:
        for _ in range(4):
            await turns.wait_for_turn()
            clock.ns += SLICE_MS * 1_000_000
            done[owner] += 1

    tasks = [asyncio.ensure_future(work(owner)) for owner in done]
    while not all(task.done() for task in tasks):
        before = sum(done.values())
        await asyncio.sleep(0)
        assert sum(done.values()) - before <= 1
        assert max(done.values()) - min(done.values()) <= 1
    assert set(done.values()) == {4}


async def test_a_cancelled_owner_does_not_block_the_others() -> None:
    clock, turns = SpentClock(), None
    turns = Turns(clock)
    first, second = asyncio.ensure_future(turns.wait_for_turn()), asyncio.ensure_future(turns.wait_for_turn())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled()

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.sim.loop import Process, SimLoop, SimulationStuck
from ottla.broker.sim.sim_threads import SimThreads


@pytest.fixture
def loop() -> SimLoop:
    return SimLoop()


def test_time_jumps_to_the_next_due_callback(loop: SimLoop) -> None:
    seen: list[tuple[str, int]] = []

    async def work() -> None:
        loop.call_later(3_600, lambda: seen.append(("hour", loop.now_us)))
        loop.call_later(0.001, lambda: seen.append(("millisecond", loop.now_us)))
        while len(seen) < 2:
            await tick(loop, 1_000_000_000)

    loop.run_until_complete(work())
    assert seen == [("millisecond", 1_000), ("hour", 3_600_000_000)]


async def tick(loop: SimLoop, us: int) -> None:
    passed = loop.create_future()
    loop.call_in_us(us, passed.set_result, None)
    await passed


def test_paused_process_runs_its_callbacks_later_and_others_continue(loop: SimLoop) -> None:
    seen: list[tuple[str, int]] = []
    one, other = Process("one"), Process("other")

    async def counts(name: str) -> None:
        while True:
            await tick(loop, 100)
            seen.append((name, loop.now_us))

    async def work() -> None:
        loop.spawn(one, counts("one"))
        loop.spawn(other, counts("other"))
        await tick(loop, 150)
        loop.pause(one)
        await tick(loop, 300)
        loop.resume(one)
        await tick(loop, 1)

    loop.run_until_complete(work())
    assert [at for name, at in seen if name == "other"] == [100, 200, 300, 400]
    assert [at for name, at in seen if name == "one"] == [100, 450]


def test_killed_process_runs_nothing_not_even_finally_blocks(loop: SimLoop) -> None:
    seen: list[str] = []
    process = Process("one")

    async def cleans_up() -> None:
        try:
            await tick(loop, 100)
        finally:
            seen.append("cleaned up")

    async def work() -> None:
        loop.spawn(process, cleans_up())
        await tick(loop, 50)
        loop.kill(process)
        await tick(loop, 100)
        assert seen == []

    loop.run_until_complete(work())


def test_loop_without_due_callbacks_raises_stuck(loop: SimLoop) -> None:
    async def waits_for_nothing() -> None:
        await loop.create_future()

    with pytest.raises(SimulationStuck):
        loop.run_until_complete(waits_for_nothing())


def test_uncaught_exceptions_are_recorded(loop: SimLoop) -> None:
    def fails() -> None:
        raise ValueError("x")

    async def work() -> None:
        asyncio.get_running_loop().call_soon(fails)
        await tick(loop, 1)

    loop.run_until_complete(work())
    assert [repr(failure["exception"]) for _, failure in loop.failures] == ["ValueError('x')"]


@pytest.mark.parametrize(("cancelled_at_us", "runs"), [(5, 0), (15, 1)])
def test_work_on_a_simulated_thread_can_be_cancelled_until_it_begins(loop: SimLoop, cancelled_at_us: int, runs: int) -> None:
    done: list[str] = []

    async def work() -> None:
        result = loop.run_in_executor(SimThreads(loop, lambda: 10), done.append, "done")
        await tick(loop, cancelled_at_us)
        result.cancel()
        await tick(loop, 30)

    loop.run_until_complete(work())
    assert (len(done), loop.failures) == (runs, [])

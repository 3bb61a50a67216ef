from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock, MovableClock, VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.upkeep.timer_driver import Deadline, Lateness, TimerDriver, pause, wait_at_most
from tests.support.simulation import TimelessLoop


async def test_a_timer_runs_at_its_deadline_and_not_before() -> None:
    clock, timers = Clock(), Timers()
    driver = TimerDriver(timers, clock)
    driver.start()
    ran: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    deadline = clock.mono_ms() + 20
    timers.schedule(deadline, lambda: ran.set_result(clock.mono_ms()))
    assert await asyncio.wait_for(ran, 60) >= deadline
    driver.stop()


async def test_a_timer_scheduled_later_with_an_earlier_deadline_is_not_missed() -> None:
    clock, timers = Clock(), Timers()
    driver = TimerDriver(timers, clock)
    driver.start()
    timers.schedule(clock.mono_ms() + 3_600_000, lambda: None)
    ran = asyncio.Event()
    timers.schedule(clock.mono_ms() + 5, ran.set)
    await asyncio.wait_for(ran.wait(), 5)
    driver.stop()


async def test_more_timers_than_one_turn_allows_all_run() -> None:
    timers = Timers()
    driver = TimerDriver(timers, Clock())
    done = asyncio.Event()
    ran: list[int] = []

    def note(number: int) -> None:
        ran.append(number)
        if len(ran) == limits.TIMER_CALLBACKS_PER_TURN + 10:
            done.set()

    for number in range(limits.TIMER_CALLBACKS_PER_TURN + 10):
        timers.schedule(0, lambda number=number: note(number))
    driver.start()
    await asyncio.wait_for(done.wait(), 5)
    driver.stop()


async def test_after_stop_nothing_runs() -> None:
    timers, ran = Timers(), []
    driver = TimerDriver(timers, Clock())
    driver.start()
    timers.schedule(0, lambda: ran.append(1))
    driver.stop()
    timers.schedule(0, lambda: ran.append(2))
    for _ in range(3):
        await asyncio.sleep(0)
    assert ran == []


async def test_advancing_the_clock_runs_due_timers() -> None:
    clock, timers = MovableClock(), Timers()
    driver = TimerDriver(timers, clock)
    driver.start()
    hour = pause(timers, clock, 3_600_000)
    clock.advance(3_599_000)
    await asyncio.sleep(0)
    assert not hour.done()
    clock.advance(1_000)
    await asyncio.wait_for(hour, 60)
    driver.stop()


async def test_a_cancelled_pause_is_harmless() -> None:
    clock, timers = MovableClock(), Timers()
    driver = TimerDriver(timers, clock)
    driver.start()
    pause(timers, clock, 1_000).cancel()
    clock.advance(1_000)
    await asyncio.wait_for(pause(timers, clock, 0), 5)
    assert len(timers) == 0
    driver.stop()


async def test_all_drivers_of_a_clock_wake_when_it_advances() -> None:
    clock, sets = MovableClock(), [Timers(), Timers()]
    drivers = [TimerDriver(timers, clock) for timers in sets]
    for driver in drivers:
        driver.start()
    hours = [pause(timers, clock, 3_600_000) for timers in sets]
    clock.advance(3_600_000)
    await asyncio.wait_for(asyncio.gather(*hours), 5)
    for driver in drivers:
        driver.stop()


async def test_a_virtual_clocks_timers_ignore_the_loops_time() -> None:
    clock, timers, loop = VirtualClock(), Timers(), asyncio.get_running_loop()
    driver = TimerDriver(timers, clock)
    driver.start()
    soon = pause(timers, clock, 1)
    begun = loop.time()
    while loop.time() < begun + 0.005:  # noqa: ASYNC110 # the machine's time is to pass
        await asyncio.sleep(0)
    assert not soon.done()
    clock.advance(1)
    await asyncio.wait_for(soon, 60)
    driver.stop()


async def test_a_wait_ends_with_the_last_future_or_its_timeout() -> None:
    clock, timers, loop = VirtualClock(), Timers(), asyncio.get_running_loop()
    driver = TimerDriver(timers, clock)
    driver.start()
    first, second = loop.create_future(), loop.create_future()
    waiting = loop.create_task(wait_at_most(timers, clock, 10, [first, second]))
    await asyncio.sleep(0)
    first.set_result(None)
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(10)
    assert await waiting == [second]
    waiting = loop.create_task(wait_at_most(timers, clock, 10, [second]))
    await asyncio.sleep(0)
    second.cancel()
    assert await waiting == []
    assert len(timers) == 0
    driver.stop()


def stalling(body: Callable[[TimelessLoop, VirtualClock], None]) -> None:
    """Run the test on an event loop that the test can block for some time."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TimelessLoop)
        body(loop, VirtualClock())

    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        runner.run(run())


def pass_ms(loop: TimelessLoop, clock: VirtualClock, ms: int) -> None:
    loop.stalled_ms += ms
    clock.advance(ms)


def test_lateness_is_the_time_since_the_deadline() -> None:
    def body(loop: TimelessLoop, clock: VirtualClock) -> None:
        late = Lateness(clock, 1_000)
        pass_ms(loop, clock, 1_000)
        assert late.ms() == 0
        pass_ms(loop, clock, 700)
        assert late.ms() == 700

    stalling(body)


def test_advancing_the_clock_makes_no_timer_late() -> None:
    def body(loop: TimelessLoop, clock: VirtualClock) -> None:
        late = Lateness(clock, 1_000)
        clock.advance(3_600_000)
        assert late.ms() == 0

    stalling(body)


def test_a_deadline_processed_late_waits_again_for_the_delay() -> None:
    def body(loop: TimelessLoop, clock: VirtualClock) -> None:
        timers, ran = Timers(), []
        Deadline(timers, clock, 1_000, lambda: ran.append(clock.mono_ms()))
        pass_ms(loop, clock, 1_400)
        timers.run_due(clock.mono_ms())
        assert ran == []
        pass_ms(loop, clock, 400)
        timers.run_due(clock.mono_ms())
        assert ran == [1_800]

    stalling(body)


def test_a_late_deadline_waits_at_most_its_first_duration() -> None:
    def body(loop: TimelessLoop, clock: VirtualClock) -> None:
        timers, ran = Timers(), []
        Deadline(timers, clock, 1_000, lambda: ran.append(clock.mono_ms()))
        pass_ms(loop, clock, 60_000)
        timers.run_due(clock.mono_ms())
        assert timers.next_deadline() == 61_000
        pass_ms(loop, clock, 1_000 + limits.LATE_TURN_MS)
        timers.run_due(clock.mono_ms())
        assert ran == [61_100]

    stalling(body)


def test_a_deadline_on_time_runs_at_once_and_a_cancelled_one_never() -> None:
    def body(loop: TimelessLoop, clock: VirtualClock) -> None:
        timers, ran = Timers(), []
        Deadline(timers, clock, 1_000, lambda: ran.append(1))
        Deadline(timers, clock, 1_000, lambda: ran.append(2)).cancel()
        waiting = Deadline(timers, clock, 500, lambda: ran.append(3))
        pass_ms(loop, clock, 1_000)
        timers.run_due(clock.mono_ms())
        assert ran == [1]
        waiting.cancel()
        pass_ms(loop, clock, 5_000)
        timers.run_due(clock.mono_ms())
        assert ran == [1]

    stalling(body)

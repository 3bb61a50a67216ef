from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.upkeep.nursery import Nursery, OnFailure
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver, pause
from ottla.broker.storage.errors import FsyncFailed
from tests.support.simulation import settle


class Harness:
    def __init__(self) -> None:
        self.clock, self.timers = VirtualClock(), Timers()
        self.driver = TimerDriver(self.timers, self.clock)
        self.lost: list[BaseException] = []
        self.nursery = Nursery(self.timers, self.clock, self.lost.append)
        self.events: list[str] = []

    async def advance(self, ms: int, step_ms: int = 10) -> None:
        await settle(5)
        for _ in range(ms // step_ms):
            self.clock.advance(step_ms)
            await settle(5)

    def lasting(self, name: str) -> Callable[[], asyncio.Future[None]]:
        async def work() -> None:
            self.events.append(f"{name} begins")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0)
                self.events.append(f"{name} ends")

        return work  # type: ignore[return-value] # a coroutine function


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    made = Harness()
    made.driver.start()
    yield made
    made.driver.stop()


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_failed_work_is_retried_after_pauses_that_double(harness: Harness) -> None:
    tries: list[int] = []

    async def work() -> None:
        tries.append(harness.clock.mono_ms())
        if len(tries) < 5:
            raise KeyError(len(tries))

    harness.nursery.start("job", work)
    await harness.advance(3_000)
    assert tries == [0, 100, 300, 700, 1_500]


async def test_a_lasting_bug_is_logged_once_with_its_traceback(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise KeyError("gone")

    harness.nursery.every("count of records", 10, work)
    await harness.advance(limits.STATE_STILL_MS - 100)
    (logged,) = errors(caplog)
    assert logged.getMessage() == "count of records failed; it is retried: 'gone'"
    assert logged.exc_info is not None
    assert logged.exc_info[1].__class__ is KeyError


async def test_another_bug_of_the_same_work_is_logged_too(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    bugs = iter([KeyError("first"), ValueError("second")])

    async def work() -> None:
        raise next(bugs, KeyError("third"))

    harness.nursery.every("job", 10, work)
    await harness.advance(50)
    assert [record.exc_info[0] for record in errors(caplog) if record.exc_info] == [KeyError, ValueError]


async def test_work_that_succeeds_again_ends_the_failure(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    runs: list[int] = []

    async def work() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise OSError(28, "No space left on device")

    harness.nursery.every("checkpoint", 100, work)
    await harness.advance(250)
    assert [(record.message, record.exc_info) for record in caplog.records] == [
        ("checkpoint failed; it is retried: [Errno 28] No space left on device", None),
        ("checkpoint works again (after 0 s)", None),
    ]


async def test_work_that_is_given_up_is_logged_and_its_waiter_gets_the_error(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError):
        await harness.nursery.run("job", work)
    await harness.advance(20_000, 1_000)
    assert len(errors(caplog)) == 1
    assert not harness.lost


async def test_a_failure_that_loses_the_node_is_passed_on_and_ends_the_work(harness: Harness) -> None:
    async def work() -> None:
        raise KeyError("gone")

    harness.nursery.start("metadata", work, OnFailure.LOST)
    await harness.advance(1_000)
    assert [type(error) for error in harness.lost] == [KeyError]


@pytest.mark.parametrize("on_failure", OnFailure)
async def test_a_failed_fsync_loses_the_node_under_every_policy(harness: Harness, on_failure: OnFailure) -> None:
    async def work() -> None:
        raise FsyncFailed(5, "Input/output error")

    harness.nursery.start("flush", work, on_failure)
    await harness.advance(1_000)
    assert [type(error) for error in harness.lost] == [FsyncFailed]


async def test_a_cancelled_wait_does_not_end_background_work_for_good(harness: Harness) -> None:
    waits: list[asyncio.Future[None]] = []

    async def work() -> None:
        waits.append(asyncio.get_running_loop().create_future())
        await waits[-1]

    harness.nursery.start("job", work)
    await harness.advance(10)
    waits[0].cancel()
    await harness.advance(200)
    assert len(waits) == 2
    await harness.nursery.stop()


async def test_work_that_the_ending_loop_cancels_loses_no_node(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.nursery.start("metadata", harness.lasting("metadata"), OnFailure.LOST)
    await settle()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await settle()
    assert (harness.lost, errors(caplog)) == ([], [])


async def test_a_worker_runs_once_at_a_time_and_again_after_its_end(harness: Harness) -> None:
    waits: list[asyncio.Future[None]] = []

    async def work() -> None:
        waits.append(asyncio.get_running_loop().create_future())
        await waits[-1]

    worker = harness.nursery.worker("queue", work)
    worker.wake()
    worker.wake()
    await settle()
    assert len(waits) == 1
    waits[0].set_result(None)
    await settle()
    worker.wake()
    await settle()
    assert len(waits) == 2
    await harness.nursery.stop()


async def test_a_worker_that_is_woken_in_the_turn_of_its_end_runs_again(harness: Harness) -> None:
    answers: list[asyncio.Future[None]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
    left = list(answers)

    async def work() -> None:
        left.pop(0).set_result(None)

    worker = harness.nursery.worker("queue", work)
    for answer in answers:
        worker.wake()
        await answer
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_periodic_work_runs_at_its_first_time_and_then_after_each_interval(harness: Harness) -> None:
    ran: list[int] = []
    intervals = iter([100, 30])

    async def work() -> None:
        ran.append(harness.clock.mono_ms())

    harness.nursery.every("job", lambda: next(intervals, 1_000), work, first_ms=50)
    await harness.advance(300)
    assert ran == [50, 150, 180]
    await harness.nursery.stop()


async def test_periodic_work_with_nothing_to_do_creates_no_task_and_continues(harness: Harness) -> None:
    times: list[int] = []
    harness.nursery.every("job", 100, lambda: times.append(harness.clock.mono_ms()))
    await harness.advance(250)
    assert times == [100, 200]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_stop_ends_everything_in_reverse_order_and_waits(harness: Harness) -> None:
    for name in ("first", "second"):
        harness.nursery.start(name, harness.lasting(name))

    async def close() -> None:
        await asyncio.sleep(0)
        harness.events.append("closed")

    harness.nursery.at_close(close, lambda: harness.events.append("crashed"))
    harness.nursery.start("third", harness.lasting("third"))
    await settle()
    harness.events.clear()
    await harness.nursery.stop()
    assert harness.events == ["third ends", "closed", "second ends", "first ends"]
    assert len(harness.timers) == 0


async def test_a_stop_closes_the_rest_after_an_error_and_raises_it(harness: Harness) -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    harness.nursery.at_close(lambda: harness.events.append("directory"), lambda: None)
    harness.nursery.at_close(fail, lambda: None)
    with pytest.raises(OSError, match="No space left"):
        await harness.nursery.stop()
    assert harness.events == ["directory"]


async def test_a_crash_cancels_everything_at_once_and_nothing_starts_again(harness: Harness) -> None:
    harness.nursery.at_close(lambda: harness.events.append("closed"), lambda: harness.events.append("crashed"))
    worker = harness.nursery.worker("queue", harness.lasting("queue"))
    worker.wake()

    async def fail() -> None:
        await pause(harness.timers, harness.clock, 10)
        raise KeyError("gone")

    harness.nursery.start("job", fail)
    harness.nursery.every("periodic", 10, harness.lasting("periodic"))
    await harness.advance(20)
    harness.events.clear()
    harness.nursery.crash()
    assert harness.events == ["crashed"]
    await settle()
    worker.wake()
    assert harness.nursery.run("late", harness.lasting("late")).cancelled()
    await harness.advance(1_000)
    assert sorted(harness.events) == ["crashed", "periodic ends", "queue ends"]
    assert len(harness.timers) == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_bug_of_one_step_is_logged_once_and_the_next_step_is_done(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    for _ in range(3):
        for partition in ("a-0", "a-1"):
            with harness.nursery.step("retention of %s", partition) as step:
                if partition == "a-0":
                    raise KeyError(partition)
                done.append(partition)
            assert (step.error is not None) == (partition == "a-0")
    assert done == ["a-1"] * 3
    assert [record.getMessage() for record in errors(caplog)] == ["retention of a-0 failed; it is given up: 'a-0'"]


async def test_a_step_passes_a_failed_fsync_and_a_cancellation(harness: Harness) -> None:
    for error in (FsyncFailed(5, "Input/output error"), asyncio.CancelledError()):
        with pytest.raises(type(error)), harness.nursery.step("flush"):
            raise error

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.upkeep.housekeeping import Housekeeping
from ottla.broker.storage.errors import FsyncFailed


class Scene:
    def __init__(self) -> None:
        self.clock, self.timers = VirtualClock(), Timers()
        self.failures: list[BaseException] = []
        self.housekeeping = Housekeeping(self.timers, self.clock, self.failures.append)

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_job_runs_first_at_its_first_time_and_then_at_each_interval(scene: Scene) -> None:
    ran: list[int] = []
    scene.housekeeping.every(100, lambda: ran.append(scene.clock.mono_ms()), first_ms=30, name="job")
    for _ in range(25):
        scene.advance(10)
    assert ran == [30, 130, 230]


def test_a_changed_interval_applies_after_the_next_run(scene: Scene) -> None:
    ran: list[int] = []
    intervals = iter([100, 30, 60])
    scene.housekeeping.every(lambda: next(intervals, 1_000), lambda: ran.append(scene.clock.mono_ms()), name="job")
    for _ in range(25):
        scene.advance(10)
    assert ran == [100, 130, 190]


def test_a_long_job_yields_to_the_loop_after_each_slice(scene: Scene) -> None:
    steps: list[int] = []

    def job() -> Iterator[None]:
        for number in range(10):
            steps.append(number)
            scene.clock.advance(limits.HOUSEKEEPING_SLICE_MS)
            yield

    scene.housekeeping.every(1000, job, first_ms=0, name="job")
    scene.timers.run_due(scene.clock.mono_ms(), max_callbacks=1)
    assert steps == [0]
    for _ in range(20):
        scene.advance(1)
    assert steps == list(range(10))


async def test_a_job_continues_when_its_yielded_future_is_done(scene: Scene) -> None:
    waiting: list[asyncio.Future[None]] = []
    steps: list[str] = []

    def job() -> Iterator[asyncio.Future[None]]:
        waiting.append(asyncio.get_running_loop().create_future())
        steps.append("begun")
        yield waiting[-1]
        waiting[-1].result()
        steps.append("done")

    scene.housekeeping.every(10, job, name="job")
    scene.advance(10)
    scene.advance(100)
    assert steps == ["begun"]
    waiting[0].set_result(None)
    await asyncio.sleep(0)
    assert steps == ["begun", "done"]
    scene.advance(10)
    waiting[1].set_exception(FsyncFailed("no"))
    await asyncio.sleep(0)
    assert (steps, len(scene.failures)) == (["begun", "done", "begun"], 1)


def test_a_failed_job_runs_again_at_its_next_time(scene: Scene) -> None:
    ran: list[int] = []

    def job() -> None:
        ran.append(1)
        raise OSError("disk full")

    scene.housekeeping.every(10, job, name="job")
    scene.advance(10)
    scene.advance(10)
    assert len(ran) == 2
    assert scene.failures == []


def test_a_failed_fsync_is_reported_as_fatal(scene: Scene) -> None:
    def job() -> None:
        raise FsyncFailed("no")

    scene.housekeeping.every(10, job, name="job")
    scene.advance(10)
    assert len(scene.failures) == 1


def test_no_job_starts_or_continues_after_a_stop(scene: Scene) -> None:
    steps: list[int] = []

    def job() -> Iterator[None]:
        for number in range(10):
            steps.append(number)
            scene.clock.advance(limits.HOUSEKEEPING_SLICE_MS)
            yield

    scene.housekeeping.every(10, job, name="job")
    scene.advance(10)
    scene.timers.run_due(scene.clock.mono_ms())
    before = len(steps)
    scene.housekeeping.stop()
    scene.advance(1000)
    assert len(steps) == before


def test_a_bug_does_not_end_a_job_and_is_logged_once_with_its_trace(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    ran: list[int] = []

    def job() -> Iterator[None]:
        ran.append(1)
        yield
        if len(ran) != 3:
            raise ValueError("a bug")

    scene.housekeeping.every(10, job, name="job")
    for _ in range(5):
        scene.advance(10)
    assert len(ran) == 5
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [ValueError, ValueError]

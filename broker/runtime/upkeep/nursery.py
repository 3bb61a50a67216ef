"""Owns the background tasks of a node (a broker or controller), and the functions that close its components. It ends all of them in one of
two ways: `stop` or `crash`.

Invariants:
- Each piece of work has a name, and a policy for failure: `OnFailure`.
- A failure is logged when it begins, then rarely until the work has succeeded again; a bug is logged with its traceback. A retry waits
  twice as long as the one before; periodic work is retried at its interval.
- A failed fsync ends the process whatever the policy, because the page cache's content is unknown afterwards.
- `stop` closes in reverse order of start and waits for each; `crash` closes in the same order and waits for nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from enum import Enum
from types import TracebackType
from typing import Any

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.state_lines import StateLines
from ottla.broker.core.timers import TimerHandle, Timers
from ottla.broker.storage.errors import FsyncFailed

logger = logging.getLogger(__name__)

Work = Callable[[], "Coroutine[Any, Any, Any] | None"]
"""A function that returns a coroutine to run as background work, or None if there is nothing to do, so that an idle node makes no tasks."""


class OnFailure(Enum):
    """The policy after an exception in background work: retry it, give it up, or end the node."""

    RETRY = "it is retried"
    GIVE_UP = "it is given up"
    LOST = "the node stops"


class Nursery:
    """The owner of a node's background tasks and of the functions that close its components. `on_lost` is called with an error after which
    the process must end.
    """

    def __init__(self, timers: Timers, clock: Clock, on_lost: Callable[[BaseException], object]) -> None:
        self.timers = timers
        self.clock = clock
        self._on_lost = on_lost
        self._owned: dict[Job | _Closing, None] = {}
        self._failing: dict[tuple[str, tuple[object, ...]], set[type[BaseException]]] = {}
        self._lines = StateLines(logger, clock.mono_ms)
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, name: str, work: Work, on_failure: OnFailure = OnFailure.RETRY) -> Job:
        """Start `work` now as background work with this name, and return its job. `on_failure` is what happens after an exception of
        `work`: a retry, the end of the work, or the end of the node.
        """
        job = Job(self, name, work, on_failure)
        job.wake()
        return job

    def run(self, name: str, work: Work) -> asyncio.Future[Any]:
        """Start `work` once, without retries, and return the future of its result or exception. The future is cancelled when the node
        stops.
        """
        job = self.start(name, work, OnFailure.GIVE_UP)
        if job.task is not None:
            return job.task
        closed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        closed.cancel()
        return closed

    def worker(self, name: str, work: Work) -> Job:
        """Return a job that runs `work` each time it is woken (`Job.wake`), one run at a time. `work` must return when nothing is left to
        do.
        """
        return Job(self, name, work, OnFailure.RETRY)

    def every(self, name: str, interval_ms: int | Callable[[], int], work: Work, *, first_ms: int | None = None) -> Job:
        """Start `work` after `first_ms` (default: the interval), and again whenever `interval_ms` has passed since the work ended or
        failed.

        An interval that may change is given as a function, which is called before each pause.
        """
        job = Job(self, name, work, OnFailure.RETRY, interval_ms)
        job.wake_in(job.interval_ms() if first_ms is None else first_ms)
        return job

    def at_close(self, stop: Callable[[], Awaitable[None] | None], crash: Callable[[], object]) -> None:
        """Register a component to be closed at the end of the node. At a normal stop, `stop` is called and awaited. If the node ends
        abruptly (`Nursery.crash`), `crash` is called instead, which must not wait. Both are called after all components and tasks that were
        started later are closed.
        """
        self._loop = asyncio.get_running_loop()
        self._owned[_Closing(stop, crash)] = None

    def step(self, name: str, *args: object, passing: type[Exception] = FsyncFailed) -> GuardedStep:
        """Return a context manager for one step of the node's work. An exception in the step is logged, not raised, so that the later steps
        are taken; only FsyncFailed and `passing` are raised. The step's name in the log is `name % args`.
        """
        return GuardedStep(self, name, args, passing)

    async def stop(self) -> None:
        """Close everything that the node has started, the newest first, one after the other. If closing one fails, the others are still
        closed; then the first error is raised.
        """
        errors: list[Exception] = []
        while self._owned:
            newest, _ = self._owned.popitem()
            try:
                await newest.stop()
            except Exception as error:  # noqa: BLE001 # raised below, after the rest is closed
                errors.append(error)
        self._closed = True
        if errors:
            raise errors[0]

    def crash(self) -> None:
        """Close everything that the node has started, without waiting. Running work is cancelled, and no further work starts."""
        self._closed = True
        with ExitStack() as newest_first:
            for owned in self._owned:
                newest_first.callback(owned.crash)
        self._owned.clear()

    def crash_soon(self) -> None:
        """Call `crash` in the next turn of the event loop. Any thread may call this."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.crash)

    def _failed(self, error: BaseException, on_failure: OnFailure, name: str, *args: object) -> None:
        trace = None if isinstance(error, OSError | Rejected) else error
        if on_failure is OnFailure.LOST or isinstance(error, FsyncFailed):
            logger.critical(f"{name} failed; {OnFailure.LOST.value}: %s", *args, error, exc_info=trace)
            self._on_lost(error)
            return
        if len(self._failing) == limits.STATES_MAX:
            del self._failing[next(iter(self._failing))]
        self._failing.setdefault((name, args), set()).add(type(error))
        self._lines.report((name, args, type(error)), logging.ERROR, f"{name} failed; {on_failure.value}: %s", *args, error, error=trace)

    def _succeeded(self, name: str, *args: object) -> None:
        if self._failing:
            for kind in self._failing.pop((name, args), ()):
                self._lines.ended((name, args, kind), f"{name} works again", *args)


class GuardedStep:
    """A context manager, made by `Nursery.step`, that logs an exception of its block instead of raising it."""

    __slots__ = ("_args", "_name", "_nursery", "_passing", "error")

    def __init__(self, nursery: Nursery, name: str, args: tuple[object, ...], passing: type[Exception]) -> None:
        self._passing = passing
        self._nursery = nursery
        self._name = name
        self._args = args
        self.error: Exception | None = None
        """The exception of the block, after its end; None if there was none."""

    def __enter__(self) -> GuardedStep:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> bool:
        if error is None:
            self._nursery._succeeded(self._name, *self._args)
        if not isinstance(error, Exception) or isinstance(error, (FsyncFailed, self._passing)):
            return False
        self.error = error
        self._nursery._failed(error, OnFailure.GIVE_UP, self._name, *self._args)
        return True


class Job:
    """A piece of a node's background work. It runs once, periodically, or each time it is woken. A `Nursery` makes it."""

    __slots__ = ("_began_ms", "_interval", "_name", "_nursery", "_on_failure", "_over", "_retry_ms", "_timer", "_work", "task")

    def __init__(
        self, nursery: Nursery, name: str, work: Work, on_failure: OnFailure, interval_ms: int | Callable[[], int] | None = None
    ) -> None:
        self._nursery = nursery
        self._name = name
        self._work = work
        self._on_failure = on_failure
        self._interval = interval_ms
        self._retry_ms = limits.BACKGROUND_RETRY_MS
        self._began_ms = 0
        self._timer: TimerHandle | None = None
        self._over = False
        self.task: asyncio.Task[Any] | None = None
        """The task of the current run; None while the job does not run."""

    def interval_ms(self) -> int:
        """Return the milliseconds from the end of a run of this periodic job to the start of the next run."""
        assert self._interval is not None, "only periodic work has an interval"
        return self._interval if isinstance(self._interval, int) else self._interval()

    def wake(self) -> None:
        """Run the work now. Do nothing if the work is already running or its next run (a retry or a periodic one) is scheduled: running
        work must itself find new items before it returns.
        """
        if self.task is not None and self.task.done():
            self._ended(self.task)  # asyncio calls it a turn later: until then this wake-up would be lost, because the job seems to run
        if self.task is None and self._timer is None:
            self._begin()

    def wake_in(self, ms: int) -> None:
        """Run the job's work after `ms` milliseconds."""
        if not self._nursery._closed:
            self._nursery._owned[self] = None
            self._timer = self._nursery.timers.schedule(self._nursery.clock.mono_ms() + ms, self._begin)

    def cancel(self) -> None:
        """Cancel the job's current run and all later ones."""
        self._over = True
        self._nursery._owned.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        if self.task is not None:
            self.task.cancel()

    crash = cancel

    async def stop(self) -> None:
        """Cancel the job's current run and all later ones, and wait until the current run has ended."""
        self.cancel()
        if self.task is not None:
            await asyncio.wait([self.task])

    def _begin(self) -> None:
        self._timer = None
        if self._over or self._nursery._closed:
            return
        self._began_ms = self._nursery.clock.mono_ms()
        if (work := self._work()) is None:
            self._succeeded()
            return
        self._nursery._owned[self] = None
        self.task = asyncio.get_running_loop().create_task(work, name=self._name)
        self.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if task is not self.task:
            return
        self.task = None
        if self._over or task.cancelling():  # cancelled by `cancel`, or by the event loop when it closes
            return
        if task.cancelled():
            self._failed(asyncio.CancelledError("something that it waited for was cancelled"))
        elif (error := task.exception()) is not None:
            self._failed(error)
        else:
            self._succeeded()

    def _succeeded(self) -> None:
        self._retry_ms = limits.BACKGROUND_RETRY_MS
        self._nursery._succeeded(self._name)
        if self._interval is not None:
            self.wake_in(self.interval_ms())
        else:
            self._nursery._owned.pop(self, None)

    def _failed(self, error: BaseException) -> None:
        self._nursery._failed(error, self._on_failure, self._name)
        if self._over:
            return
        if self._on_failure is not OnFailure.RETRY or isinstance(error, FsyncFailed):
            self._nursery._owned.pop(self, None)
        elif self._interval is not None:
            self.wake_in(self.interval_ms())
        else:
            if self._nursery.clock.mono_ms() - self._began_ms > limits.BACKGROUND_RETRY_MS_MAX:
                self._retry_ms = limits.BACKGROUND_RETRY_MS
            self.wake_in(self._retry_ms)
            self._retry_ms = min(2 * self._retry_ms, limits.BACKGROUND_RETRY_MS_MAX)


class _Closing:
    """A component that is closed when the node ends: by `stop` normally, by `crash` if the node ends abruptly."""

    __slots__ = ("_stop", "crash")

    def __init__(self, stop: Callable[[], Awaitable[None] | None], crash: Callable[[], object]) -> None:
        self._stop = stop
        self.crash = crash

    async def stop(self) -> None:
        if (closing := self._stop()) is not None:
            await closing

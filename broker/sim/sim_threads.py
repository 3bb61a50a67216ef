"""Simulated threads: work runs on the event loop after a delay of virtual time, and its result is delivered after another delay."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

from ottla.broker.sim.loop import ProcessKilled, SimLoop, Turn

T = TypeVar("T")


class SimThreads(Executor):
    """A simulated thread pool with any number of threads. Work takes two steps, its execution and the delivery of its result; `delay_us()`
    returns the duration of a step in microseconds."""

    def __init__(self, loop: SimLoop, delay_us: Callable[[], int]) -> None:
        self._loop = loop
        self._delay_us = delay_us
        self._waiting: dict[Future[Any], tuple[Turn, Callable[[], None]]] = {}

    def submit(self, work: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        done: Future[T] = Future()
        do = partial(self._do, done, partial(work, *args, **named))
        self._waiting[done] = (self._loop.call_in_us(self._delay_us(), do), do)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Run all pending work at once, because the caller would wait for it."""
        for turn, do in list(self._waiting.values()):
            turn.cancel()
            do()

    def _do(self, done: Future[T], work: Callable[[], T]) -> None:
        self._waiting.pop(done, None)
        if not done.set_running_or_notify_cancel():  # work that has begun cannot be cancelled, as in a real pool
            return
        try:
            result = work()
        except ProcessKilled:
            raise
        except Exception as error:  # noqa: BLE001 # passed to the caller
            self._loop.call_in_us(self._delay_us(), done.set_exception, error)
        else:
            self._loop.call_in_us(self._delay_us(), done.set_result, result)


class InlineThreads(Executor):
    """A replacement for a thread pool that runs the work at once on the event loop's own thread. The caller gets the result in a later turn
    of the loop."""

    def __init__(self, count: int, name: str) -> None:
        pass

    def submit(self, work: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(work(*args, **named))
        except Exception as error:  # noqa: BLE001 # passed to the caller
            done.set_exception(error)
        return done

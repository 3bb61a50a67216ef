"""What a simulated run needs beside a virtual clock, a disk and a network in memory: a loop without time, and threads that are none."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class InlineThreads(Executor):
    """Does the work at once, on the loop's own thread; the loop hears of it in a later turn."""

    def __init__(self, count: int, name: str) -> None:
        pass

    def submit(self, work: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(work(*args, **named))
        except Exception as error:  # noqa: BLE001 # whatever it is, it is for whoever asked
            done.set_exception(error)
        return done


class TimelessLoop(asyncio.SelectorEventLoop):
    """Whoever asks it for time or for the operating system's network is found out."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())

    def time(self) -> float:
        return 0.0

    def call_at(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("something waits for the machine's time")

    def call_later(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("something waits for the machine's time")

    async def create_server(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("something listens at the machine")

    async def create_connection(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("something connects through the machine")


async def settle(turns: int = 50) -> None:
    """Let everything happen that needs no time."""
    for _ in range(turns):
        await asyncio.sleep(0)

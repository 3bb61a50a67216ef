"""An event loop without time, for tests with a virtual clock, and a disk and network in memory."""

from __future__ import annotations

import asyncio
import selectors
from typing import NoReturn


class TimelessLoop(asyncio.SelectorEventLoop):
    """An event loop that fails a test if code asks it for the time, a delayed call, or the operating system's network."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self.stalled_ms = 0
        """Milliseconds for which the event loop was stalled; the code that stalls it also advances the clocks."""

    def time(self) -> float:
        return self.stalled_ms / 1_000

    def call_at(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("something waits for the machine's time")

    def call_later(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("something waits for the machine's time")

    async def create_server(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("something listens at the machine")

    async def create_connection(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("something connects through the machine")


async def settle(turns: int = 50) -> None:
    """Run the event loop for `turns` turns, which is enough for everything that waits neither for time nor for a thread."""
    for _ in range(turns):
        await asyncio.sleep(0)

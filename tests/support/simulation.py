"""What a simulated run needs beside a virtual clock, a disk and a network in memory: a loop without time."""

from __future__ import annotations

import asyncio
import selectors
from typing import NoReturn


class TimelessLoop(asyncio.SelectorEventLoop):
    """Whoever asks it for time or for the operating system's network is found out."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self.stalled_ms = 0
        """For so long it did nothing; whoever stalls it puts the clocks forward, too."""

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
    """Let everything happen that needs no time."""
    for _ in range(turns):
        await asyncio.sleep(0)

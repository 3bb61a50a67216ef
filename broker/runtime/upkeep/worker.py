"""A task that is there while there is work: begun by the first piece of it, ended by the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


class Worker:
    """`work` returns when nothing is left to do; at any time one call of it runs at most."""

    def __init__(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """There is work: begins it, unless it runs, which then finds this, too."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """End it where it waits."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """End it, and wait until that is so."""
        self.cancel()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._work()
        finally:
            self._task = None

"""A task that exists only while there is work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


class Worker:
    """Runs `work`, which returns when nothing is left to do, at most once at a time."""

    def __init__(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Start `work` unless it runs already; a running one must find the new work itself."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """Cancel the task, if there is one."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Cancel the task and wait until it has ended."""
        self.cancel()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._work()
        finally:
            self._task = None

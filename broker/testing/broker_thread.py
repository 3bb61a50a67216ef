"""The thread and the event loop that a broker of this process has for its own.

Rules: nothing is shared with the caller's thread but what goes through `call`, which blocks until it is done.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from ottla.broker.app import Broker

T = TypeVar("T")
PATIENCE_S = 20.0
"""How long the caller waits for the broker's thread before TimeoutError."""


class BrokerThread:
    """Where the broker over `data_dir` runs."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.broker: Broker
        self.running = False
        """False before a start, after a stop and after a kill."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def start_loop(self) -> None:
        """Begin the thread, for `call_async` to start a broker on."""
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla-broker", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[Broker], T]) -> T:
        """Run `work` on the broker's loop and give back what it returns."""

        async def on_loop() -> T:
            return work(self.broker)

        return self.call_async(on_loop())

    def call_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop. Raises TimeoutError after `PATIENCE_S`, RuntimeError where no broker runs."""
        if self._loop is None:
            work.close()
            raise RuntimeError("the broker does not run: start it first")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def call_until(self, condition: Callable[[Broker], bool]) -> None:
        """Wait until `condition` holds on the broker's loop; looks again after each turn. Raises TimeoutError."""

        async def look() -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not condition(self.broker):  # noqa: ASYNC110 # a condition of any kind has no event
                    await asyncio.sleep(0)

        self.call_async(look())

    def end_loop(self) -> None:
        """End the thread, whatever the broker was doing: after a `kill`, or after a scripted crash."""
        self.running = False

        async def cancel_rest() -> None:
            rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

        self.call_async(cancel_rest())
        loop, self._loop = self._loop, None
        assert loop is not None  # something ran on it
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(PATIENCE_S)
        loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 # does not exist everywhere
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()

"""The thread and the event loop that a node of this process has for its own.

Rules: nothing is shared with the caller's thread but what goes through `call`, which blocks until it is done.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from ottla.broker.app import Broker

T = TypeVar("T")
N = TypeVar("N")
PATIENCE_S = 20.0
"""How long the caller waits for the node's thread before TimeoutError."""


class NodeThread(Generic[N]):
    """Where the node over `data_dir` runs. `what` is what it is called."""

    def __init__(self, data_dir: Path, what: str = "broker") -> None:
        self.data_dir = data_dir
        self.node: N
        self.running = False
        """False before a start, after a stop and after a kill."""
        self.paused = False
        """Whether it runs, and stands still."""
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None
        self._released: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def start_loop(self) -> None:
        """Begin the thread, for `call_async` to start a node on."""
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"ottla-{self._what}", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[N], T]) -> T:
        """Run `work` on the node's loop and give back what it returns."""

        async def on_loop() -> T:
            return work(self.node)

        return self.call_async(on_loop())

    def call_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the node's loop. Raises TimeoutError after `PATIENCE_S`, RuntimeError where no node runs, or it is paused."""
        if self._loop is None or self.paused:
            work.close()
            raise RuntimeError(f"the {self._what} " + ("is paused: resume it first" if self.paused else "does not run: start it first"))
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def call_until(self, condition: Callable[[N], bool]) -> None:
        """Wait until `condition` holds on the node's loop; looks again after each turn. Raises TimeoutError."""

        async def look() -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not condition(self.node):  # noqa: ASYNC110 # a condition of any kind has no event
                    await asyncio.sleep(0)

        self.call_async(look())

    def pause(self) -> None:
        """As SIGSTOP stops a process: its connections stay, the kernel takes what comes, and nothing of it runs until `resume`."""
        if self.paused:
            return
        self.call(lambda _: None)
        stands_still = threading.Event()

        def stand_still() -> None:
            stands_still.set()
            self._released.get()()

        assert self._loop is not None  # it was called
        self._loop.call_soon_threadsafe(stand_still)
        if not stands_still.wait(PATIENCE_S):
            raise TimeoutError(f"the {self._what} did not come to a standstill")
        self.paused = True

    def resume(self, first: Callable[[], object] = lambda: None) -> None:
        """It goes on, with `first`, which is done when this returns; one that is not paused goes on anyway."""
        if self.paused:
            self.paused = False
            self._released.put(first)
            self.call(lambda _: None)

    def end_loop(self) -> None:
        """End the thread, whatever the node was doing: after a `kill`, or after a scripted crash."""
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


BrokerThread = NodeThread[Broker]


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 # does not exist everywhere
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()

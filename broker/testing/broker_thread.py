"""Runs a node (a broker, controller or gateway) in the test's process, on its own thread and event loop.

Nothing is shared with the caller's thread except through `call`, which blocks until its function has run on the node's thread.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, Protocol, Self, TypeVar

from ottla.broker.app import Broker

T = TypeVar("T")
N = TypeVar("N")
TIMEOUT_S = 20.0
"""How many seconds a caller waits for the node's thread before TimeoutError is raised."""


class NodeThread(Generic[N]):
    """A thread with its own event loop, on which a node (a broker, controller or gateway) with the data directory `data_dir` runs. `what`
    names the node in messages."""

    def __init__(self, data_dir: Path, what: str = "broker") -> None:
        self.data_dir = data_dir
        self.node: N
        self.running = False
        """True from the start of the node until it is stopped or killed."""
        self.paused = False
        """True between `pause` and `resume`: none of the node's code runs."""
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None
        self._released: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def start_loop(self) -> None:
        """Start the thread, so that `call_async` can start a node on it."""
        self._loop = _new_loop()
        self._thread = threading.Thread(target=_run_and_close, args=(self._loop,), name=f"ottla-{self._what}", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[N], T]) -> T:
        """Call `work` with the node as its argument, on the node's event loop, and return the result. Raises what `work` raises,
        TimeoutError after `TIMEOUT_S` seconds, and RuntimeError if the node does not run or is paused."""

        async def on_loop() -> T:
            return work(self.node)

        return self.call_async(on_loop())

    def call_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the node's event loop, and return its result. Raises what the coroutine raises, TimeoutError after `TIMEOUT_S`
        seconds, and RuntimeError if the node does not run or is paused."""
        if self._loop is None or self.paused:
            work.close()
            raise RuntimeError(f"the {self._what} " + ("is paused: resume it first" if self.paused else "is not running: start it first"))
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def call_until(self, condition: Callable[[N], bool]) -> None:
        """Wait until `condition`, called with the node, returns True. `condition` is called on the node's event loop, again after each turn
        of the loop. Raises TimeoutError after `TIMEOUT_S` seconds, and RuntimeError if the node does not run or is paused."""

        async def look() -> None:
            async with asyncio.timeout(TIMEOUT_S):
                while not condition(self.node):  # noqa: ASYNC110 # a condition of any kind has no event
                    await asyncio.sleep(0)

        self.call_async(look())

    def pause(self) -> None:
        """Pause the node, as SIGSTOP does: its connections stay open, the kernel buffers the bytes that arrive, and none of the node's code
        runs until `resume`. Raises RuntimeError if the node does not run, TimeoutError after `TIMEOUT_S` seconds."""
        if self.paused:
            return
        self.call(lambda _: None)
        stands_still = threading.Event()

        def stand_still() -> None:
            stands_still.set()
            self._released.get()()

        assert self._loop is not None  # it was called
        self._loop.call_soon_threadsafe(stand_still)
        if not stands_still.wait(TIMEOUT_S):
            raise TimeoutError(f"the {self._what} did not pause")
        self.paused = True

    def resume(self, first: Callable[[], object] = lambda: None) -> None:
        """Resume the paused node; before that, run `first` on the node's thread. Does nothing if the node is not paused."""
        if self.paused:
            self.paused = False
            self._released.put(first)
            self.call(lambda _: None)

    def end_loop(self) -> None:
        """Cancel all tasks of the node's event loop and end its thread, whether or not the node was stopped cleanly before. Raises
        TimeoutError after `TIMEOUT_S` seconds."""
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
        self._thread.join(TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the thread of the {self._what} did not end")


class StoppableNode(Protocol):
    """The interface of a node (a broker, controller or gateway) that can be stopped cleanly."""

    async def stop(self) -> None: ...


S = TypeVar("S", bound=StoppableNode)


class InProcessNode(NodeThread[S], ABC):
    """A node (a broker, controller or gateway) with its own thread. `start` starts the thread and the node; `stop` stops the node cleanly
    and ends the thread."""

    def start(self) -> Self:
        """Start the node if it does not run already. If the start fails, neither the node nor its thread runs; raises SettingsError for an
        invalid setting, otherwise StartError or OSError."""
        if self.running:
            return self
        self.start_loop()
        try:
            self.call_async(self._start())
        except BaseException:
            self.end_loop()
            raise
        self.running = True
        return self

    @abstractmethod
    async def _start(self) -> None:
        """Make the node, store it in the attribute `node`, and start it. This runs on the node's own event loop."""

    def stop(self) -> None:
        """Stop the node cleanly, as SIGTERM does, and end its thread."""
        self.resume()
        if self.running:
            self.call_async(self.node.stop())
            self.end_loop()


BrokerThread = NodeThread[Broker]


def _run_and_close(loop: asyncio.AbstractEventLoop) -> None:
    """Run the event loop until it is stopped, and close it on the same thread. The caller's thread does not close it, because uvloop's
    close waits without a limit."""
    try:
        loop.run_forever()
    finally:
        loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 # does not exist everywhere
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()

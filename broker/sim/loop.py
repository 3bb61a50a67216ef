"""The scheduler of a simulation: an event loop with virtual time. Its callbacks belong to simulated processes (nodes and clients), which
can be paused and killed.

Rules:
- The loop never waits: when no callback is ready, the virtual time jumps to the next timer.
- A callback belongs to the process in whose context it was scheduled (`PROCESS`). Callbacks of a paused process are kept until it resumes;
  those of a dead process never run.
- No thread, socket or clock of the machine is used; the order of callbacks is deterministic.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any, Final, TypeVarTuple

TURNS_AT_ONCE_MAX: Final = 2_000_000
"""The maximum number of callbacks at one moment of virtual time. If there are more, callbacks probably schedule each other endlessly, and
the loop raises SimulationStuck."""


_Ts = TypeVarTuple("_Ts")


class ProcessState(Enum):
    """The state of a simulated process. It determines what happens to its callbacks: RUNNING: they run; PAUSED: they are kept until it
    resumes; DEAD: they are dropped."""

    RUNNING = 0
    PAUSED = 1
    DEAD = 2


class ProcessKilled(BaseException):
    """Raised inside a simulated process that is killed during a call. It is a BaseException, so that no exception handler mistakes it for a
    failure."""


class SimulationStuck(AssertionError):
    """Raised if the simulation cannot proceed: no callback is scheduled, or virtual time does not advance."""


class Process:
    """A simulated process (a broker, controller or client), which can be paused and killed as a whole. `host` is its address in the
    simulated network."""

    __slots__ = ("context", "held", "host", "leftovers", "state")

    def __init__(self, host: str) -> None:
        self.host = host
        self.state = ProcessState.RUNNING
        self.held: list[Turn] = []
        self.leftovers: list[object] = []
        """Objects of the killed process. They are kept alive so that their clean-up code (such as `finally`) does not run during the
        simulation."""
        self.context = copy_context()
        self.context.run(PROCESS.set, self)


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)


class Turn(asyncio.TimerHandle):
    """One scheduled callback of the simulated event loop; it serves as asyncio's handle."""

    __slots__ = ("args", "at_us", "context", "gone", "work")

    def __init__(self, work: Callable[..., object], args: tuple[Any, ...], context: Context, at_us: int) -> None:
        # asyncio's __init__ is not called: only `cancel`, `cancelled` and `when` of a handle are used.
        self.work, self.args, self.context, self.at_us = work, args, context, at_us
        self.gone = False

    def cancel(self) -> None:
        self.gone = True

    def cancelled(self) -> bool:
        return self.gone

    def when(self) -> float:
        return self.at_us / 1_000_000

    def __repr__(self) -> str:
        return f"<turn at {self.at_us} us: {self.work!r}>"


class SimLoop(asyncio.AbstractEventLoop):
    """An event loop with virtual time, `now_us` in microseconds from 0. `on_idle` is called whenever no callback is ready. `failures`
    collects unhandled exceptions, in the form in which asyncio reports them."""

    def __init__(self) -> None:
        self.now_us = 0
        self.turns = 0
        self.on_idle: Callable[[], None] = lambda: None
        self.failures: list[tuple[Process | None, dict[str, Any]]] = []
        self._ready: deque[Turn] = deque()
        self._due: list[tuple[int, int, Turn]] = []
        self._count = 0
        self._running = self._stopping = self._closed = False
        self._dead: list[Process] = []

    # --- processes -----------------------------------------------------------------------------------------------------------------

    def spawn(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start the coroutine `work` as a task that belongs to a simulated process."""
        return process.context.run(self.create_task, work)

    def pause(self, process: Process) -> None:
        """Pause a simulated process, as SIGSTOP does: its callbacks are kept until `resume`."""
        if process.state is ProcessState.RUNNING:
            process.state = ProcessState.PAUSED

    def resume(self, process: Process) -> None:
        """Resume a paused simulated process. Its callbacks that became due meanwhile run in the order in which they became due."""
        if process.state is ProcessState.PAUSED:
            process.state = ProcessState.RUNNING
            held, process.held = process.held, []
            self._ready.extend(held)

    def kill(self, process: Process) -> None:
        """Kill a simulated process, as SIGKILL does: none of its callbacks runs again, and no clean-up code either."""
        if process.state is not ProcessState.DEAD:
            process.state = ProcessState.DEAD
            process.held.clear()
            process.leftovers += asyncio.all_tasks(self)
            self._dead.append(process)

    # --- what asyncio asks of a loop -----------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now_us / 1_000_000

    def call_soon(self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None) -> Turn:
        turn = Turn(callback, args, copy_context() if context is None else context, self.now_us)
        if not self._closed:
            self._ready.append(turn)
        return turn

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None) -> Turn:
        return self.call_in_us(round(delay * 1_000_000), callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None) -> Turn:
        return self.call_in_us(round(when * 1_000_000) - self.now_us, callback, *args, context=context)

    def call_in_us(self, delay_us: int, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Turn:
        """Schedule a callback like asyncio's `call_later`, with a delay in whole microseconds."""
        turn = Turn(callback, args, copy_context() if context is None else context, self.now_us + max(delay_us, 0))
        if not self._closed:
            self._count += 1
            heapq.heappush(self._due, (turn.at_us, self._count, turn))
        return turn

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None, **_: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override] # asyncio's own is typed as TypeVarTuple
        assert executor is not None, "a real thread was requested"
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closed:
            self.failures.append((PROCESS.get(), context))

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def stop(self) -> None:
        self._stopping = True

    def close(self) -> None:
        """Close the loop and drop all scheduled callbacks. Scheduling a callback afterwards, as clean-up code may do, has no effect and
        raises no error."""
        self._closed = True
        self._ready.clear()
        self._due.clear()

    # --- the run -------------------------------------------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(lambda _: self.stop())
        self.run_forever()
        return task.result()

    def run_forever(self) -> None:
        self._running, self._stopping = True, False
        _set_running_loop(self)
        try:
            while not self._stopping:
                self._run_ready()
                if not self._stopping:
                    self.on_idle()
                    if not self._ready:
                        self._advance_to_next_timer()
        finally:
            self._running = False
            _set_running_loop(None)

    def _run_ready(self) -> None:
        ready, began = self._ready, self.turns
        while ready and not self._stopping:
            turn = ready.popleft()
            if turn.gone:
                continue
            process = turn.context.get(PROCESS)
            if process is not None and process.state is not ProcessState.RUNNING:
                if process.state is ProcessState.PAUSED:
                    process.held.append(turn)
                continue
            self.turns += 1
            try:
                turn.context.run(turn.work, *turn.args)
            except ProcessKilled:
                pass
            except Exception as error:  # noqa: BLE001 # recorded for the judge, as asyncio would report it
                self.call_exception_handler({"message": f"Exception in {turn!r}", "exception": error})
            if self.turns - began > TURNS_AT_ONCE_MAX:
                raise SimulationStuck(f"time does not pass: {turn!r}")

    def _advance_to_next_timer(self) -> None:
        due = self._due
        while due and due[0][2].gone:
            heapq.heappop(due)
        if not due:
            raise SimulationStuck("nothing is scheduled any more")
        self.now_us = at = due[0][0]
        while due and due[0][0] == at:
            self._ready.append(heapq.heappop(due)[2])

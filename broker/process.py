"""Runs a node in a process until a signal stops it. Sets up garbage collection, the event loop and signal handlers, and prints the start
message."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from typing import Protocol, TypeVar

from ottla.broker.core import limits
from ottla.broker.core.descriptors import allow_open_files
from ottla.broker.core.heap import configure_malloc

logger = logging.getLogger("ottla.broker")

_GC_THRESHOLDS = (20_000, 2_000, 10)
"""The thresholds of Python's garbage collector. It can run rarely, because requests make no reference cycles. A collection blocks the event
loop for 6 ms (the youngest 20,000 objects), and for 150 ms if a request with 200,000 elements is in progress."""


class StartError(Exception):
    """The node cannot start; the text says why."""


class ServingNode(Protocol):
    """A node that `run_node` can run in a process: a broker, a controller, a local cluster, or a gateway (a proxy to the brokers of another
    cluster)."""

    async def start(self) -> None:
        """Start the node and accept connections. Raises StartError or OSError after everything that was opened has been closed."""
        ...

    async def warm_up(self) -> None:
        """Do the work that follows a start but that no client waits for, such as imports."""
        ...

    async def stop(self) -> None:
        """Stop the node cleanly, as at SIGTERM."""
        ...

    @property
    def ports(self) -> Sequence[int]:
        """The ports that clients of the node connect to."""
        ...

    def greeting(self) -> str:
        """Return the message to print after the start; an empty string for none."""
        ...


N = TypeVar("N", bound=ServingNode)
Lifespan = Callable[[N], AbstractAsyncContextManager[object]]
"""A function that takes the node and returns a context manager for work beside the node, such as an admin port. The context is entered
after the node's start and left before its stop."""


def run_node(make: Callable[[], N], port_file: Path | None = None, lifespan: Lifespan[N] | None = None) -> int:
    """Call `make` to build a node, run the node until a signal stops it, and return the exit code. The node's ports are written to
    `port_file`. `lifespan` takes the node and returns a context manager for work beside it. Raises StartError if the node cannot start."""
    signal.signal(signal.SIGTERM, _give_up)
    allow_open_files()
    try:
        import uvloop  # noqa: PLC0415 # not available on every platform
    except ImportError:
        new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    else:
        new_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(make(), port_file, lifespan or nullcontext))
    return 0


def _give_up(number: int, _: object) -> None:
    """Exit at a SIGTERM during the start. Without this handler the kernel would ignore the signal if the process is a container's first
    one."""
    raise SystemExit(128 + number)


async def _serve(node: N, port_file: Path | None, lifespan: Lifespan[N]) -> None:
    async with AsyncExitStack() as stack:
        try:
            await node.start()
            stack.push_async_callback(node.stop)
            await stack.enter_async_context(lifespan(node))
        except OSError as error:
            raise StartError(_without_number(error)) from error
        await _until_stopped(node, port_file)
    logger.info("Stopped")


def _without_number(error: OSError) -> str:
    return str(error) if error.filename is not None or not error.strerror else error.strerror


async def _until_stopped(node: ServingNode, port_file: Path | None) -> None:
    stop, is_late = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def signalled() -> None:
        if is_late.is_set():
            logger.warning("Second signal: stopping at once, the next start will recover")
            logging.shutdown()
            os._exit(1)
        if not stop.is_set():
            stop.set()
            loop.call_later(limits.REPEATED_SIGNAL_MS / 1000, is_late.set)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it; the JVM respects that, too
            loop.add_signal_handler(number, signalled)
    _announce(node, port_file)
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait([stopped], timeout=limits.WARM_UP_AFTER_MS / 1000)  # not by the node's timers, which a rewind replaces
    if not stopped.done():
        configure_malloc()
        await node.warm_up()
        gc.collect()  # a dataclass with slots replaces its class, and the first one is garbage
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        gc.enable()
    await stopped
    logger.info("Stopping")


def _announce(node: ServingNode, port_file: Path | None) -> None:
    if port_file is not None:
        partial = port_file.with_name(port_file.name + ".tmp")
        try:
            partial.write_text("".join(f"{port}\n" for port in node.ports))
            partial.replace(port_file)
        except OSError as error:
            raise StartError(f"the port file {port_file} cannot be written: {error.strerror}") from error
    if greeting := node.greeting():
        print(greeting, flush=True)

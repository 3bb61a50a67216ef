"""The type of the function that makes thread pools for blocking work, such as fsync."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

Threads = Callable[[int, str], Executor]
"""A function that makes an executor from a maximum number of threads and a thread name prefix, like `ThreadPoolExecutor`. In a simulation
it makes an executor that runs the work on the event loop's own thread, at times that the simulation chooses; its `shutdown` runs all
pending work at once.
"""

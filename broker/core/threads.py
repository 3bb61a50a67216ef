"""The type of the function that makes thread pools for blocking work, such as fsync."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

Threads = Callable[[int, str], Executor]
"""Makes an executor from a maximum number of threads and a thread name prefix, like `ThreadPoolExecutor`. A simulation's executor runs the
work on the loop's own thread at a time of its choice; only work during `close` is run at once.
"""

"""Where work runs that blocks, such as fsync: on threads, or wherever the owner of the broker wants it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

Threads = Callable[[int, str], Executor]
"""Makes an executor from how many threads it may have and what they are called, as `ThreadPoolExecutor` does. A simulation's runs the work
on the loop's own thread, when it wants to; only what `close` runs is waited for at once."""

"""Runs fsync on worker threads, so that it does not block the event loop. One fsync covers every append before its start.

Invariants:
* A log has at most one fsync at a time. Later appends wait for the next one (group commit).
* A failed fsync is fatal, because the kernel may have marked the dirty pages clean and lost their content. `on_failure` is called once, and
  nothing that waits for a sync is ever acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from ottla.broker.core import limits
from ottla.broker.core.failure import failure_of
from ottla.broker.core.threads import Threads
from ottla.broker.storage.partition_log import PartitionLog

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Flusher:
    """Syncs partition logs (fsync) on a small thread pool. After a failed fsync `on_failure(error)` is called, which must stop the
    process."""

    def __init__(self, on_failure: Callable[[BaseException], None], threads: Threads = ThreadPoolExecutor) -> None:
        self._on_failure = on_failure
        self._threads = threads
        self._pool = threads(limits.FLUSH_THREADS, "flush")
        self._computing: Executor | None = None
        self._failed = False
        self.syncs = 0
        """The number of completed log fsyncs."""

    def flush(self, log: PartitionLog, done: Callable[[int], None]) -> asyncio.Future[None]:
        """Sync `log` up to its current end offset, then call `done(offset)` with that offset on the event loop: every record before it is
        on disk.

        The returned future is done when the sync has ended. The caller may wait for it, but need not check its result, because an error
        stops the process. The caller ensures that each log has at most one flush at a time. Raises OSError if the sync cannot begin, for
        instance because no file descriptor is free; nothing has changed then.
        """
        end_offset = log.log_end_offset
        caller = log.flush_begin()

        def completed(sync: asyncio.Future[None]) -> None:
            if sync.cancelled() or self._failed:
                return
            error = sync.exception() or failure_of(synced)
            if error is not None:  # an exception in `synced` is fatal too: without the synced offset, requests would wait forever
                self.fail(error)

        def synced() -> None:
            self.syncs += 1
            log.flush_end(caller)
            done(end_offset)

        sync = self.run(caller.sync)
        sync.add_done_callback(completed)
        return sync

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work`, which blocks on files (for example, writes a checkpoint), on the thread pool that syncs logs. Return a future of the
        result or exception of `work`.
        """
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def compute(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work`, which needs much CPU time, on the computation thread: a single thread, so one computation runs after the other.
        Return a future of the result or exception of `work`.
        """
        if self._computing is None:
            self._computing = self._threads(1, "compute")
        return asyncio.get_running_loop().run_in_executor(self._computing, work)

    def close(self) -> None:
        """Finish the submitted syncs and file work, cancel computations (`compute`) that have not begun, and wait for the threads to end.
        No flush is possible afterwards.
        """
        self._shut_down(cancel=False)

    def crash(self) -> None:
        """End abruptly, as the node does in a crash: cancel syncs and other work that has not begun, and wait for the threads to end."""
        self._shut_down(cancel=True)

    def _shut_down(self, *, cancel: bool) -> None:
        self._pool.shutdown(wait=True, cancel_futures=cancel)
        if self._computing is not None:
            self._computing.shutdown(wait=True, cancel_futures=True)

    def fail(self, error: BaseException) -> None:
        """Call `on_failure`, which stops the process, because after `error` it is unknown whether written data is on disk. Only the first
        call has an effect."""
        if not self._failed:
            self._failed = True
            trace = None if isinstance(error, OSError) else error
            logger.critical("Stopping: a sync failed; what the disk holds is unknown until a restart reads it (%s)", error, exc_info=trace)
            self._on_failure(error)

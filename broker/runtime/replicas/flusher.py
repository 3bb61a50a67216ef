"""Waiting for the disk without holding the loop: fsync runs on a worker thread, and one fsync serves everything appended before it began.

Rules: at most one fsync of a log at a time; what is appended meanwhile waits for the next one (group commit). A failed fsync is fatal,
because what the page cache holds after it is unknown (the pages may be marked clean and be lost): `on_failure` is told once, and nothing
that waited is ever acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from ottla.broker.core import limits
from ottla.broker.core.threads import Threads
from ottla.broker.storage.partition_log import PartitionLog

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Flusher:
    """Syncs logs on a few threads. `on_failure(error)` stops the process."""

    def __init__(self, on_failure: Callable[[BaseException], None], threads: Threads = ThreadPoolExecutor) -> None:
        self._on_failure = on_failure
        self._threads = threads
        self._pool = threads(limits.FLUSH_THREADS, "flush")
        self._computing: Executor | None = None
        self._failed = False
        self.syncs = 0
        """How many fsyncs of logs were done."""

    def flush(self, log: PartitionLog, done: Callable[[int], None]) -> asyncio.Future[None]:
        """Sync `log` up to its present end; then call `done(offset)` on the loop, where all before `offset` is on disk.

        The caller sees to it that one log has one flush at a time. The future is for pacing: its result is looked at here. Raises `OSError`
        when the sync cannot even begin, as without a free descriptor; then nothing has changed.
        """
        end_offset = log.log_end_offset
        ticket = log.flush_begin()

        def completed(sync: asyncio.Future[None]) -> None:
            if sync.cancelled() or self._failed:
                return
            try:
                sync.result()
                self.syncs += 1
                log.flush_end(ticket)
                done(end_offset)
            except Exception as error:  # noqa: BLE001 # a bug, too, leaves open what is on disk, and whoever waits would wait for ever
                self.fail(error)

        sync = self.run(ticket.sync)
        sync.add_done_callback(completed)
        return sync

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run other blocking file work (a checkpoint's write and sync) on the same threads; the future has what it returns or raises."""
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def compute(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run work that takes a processor, not the disk, on another thread, one piece of work after the other."""
        if self._computing is None:
            self._computing = self._threads(1, "compute")
        return asyncio.get_running_loop().run_in_executor(self._computing, work)

    def close(self) -> None:
        """Wait for the threads; nothing can be flushed afterwards."""
        self._pool.shutdown(wait=True)
        if self._computing is not None:
            self._computing.shutdown(wait=True, cancel_futures=True)

    def fail(self, error: BaseException) -> None:
        """Something is written of which nobody can say whether it is on disk: the process has to stop."""
        if not self._failed:
            self._failed = True
            trace = None if isinstance(error, OSError) else error
            logger.critical("Stopping: a sync failed; what the disk holds is unknown until a restart reads it (%s)", error, exc_info=trace)
            self._on_failure(error)

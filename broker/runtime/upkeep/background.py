"""The background jobs of a broker, each with the setting that gives its interval.

Invariants:
- A job handles one partition per step, and lets other work use the event loop between the steps. An offline partition is skipped, and a
  failure on one partition does not stop the work on the others.
- A failed job runs again after its interval. Background work never stops the broker, except for a failed fsync.
- Disk operations that block run on the flusher's threads.
- A job with a short interval iterates only over partitions that have work for it, so 10,000 idle partitions cost nothing.
- A recovery point is written only after the records below it are synced. Each round syncs all partitions and the next one writes their
  recovery points, so the recovery after a crash reads the writes of about two intervals; Kafka syncs only when a segment rolls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING

from ottla.broker.core import limits
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.broker.storage.log_dir import LogDir

if TYPE_CHECKING:
    from ottla.broker.storage.log_cleaner_manager import LogCleanerManager

TIMED_FLUSH_CHECK_MS = 100
"""Milliseconds between checks for partitions whose flush.ms has passed since their first unsynced record."""

DOOMED_FILES_CHECK_MS = 1_000
"""Milliseconds between checks for deleted files whose file.delete.delay.ms has passed, so that they can be removed from the disk."""


class Background:
    """The periodic jobs of a broker, such as retention and log cleaning. `nursery`, which owns the broker's background tasks, ends them."""

    def __init__(
        self, nursery: Nursery, turns: Turns, settings: BrokerSettings, *, log_dir: LogDir, partitions: Partitions, flusher: Flusher
    ) -> None:
        self._nursery = nursery
        self._clock = nursery.clock
        self._turns = turns
        self._settings = settings
        self._log_dir = log_dir
        self._partitions = partitions
        self._flusher = flusher
        self._cleaner: LogCleanerManager | None = None

    def start(self) -> None:
        """Schedule every background job of the broker."""
        every, settings, partitions, clock = self._nursery.every, self._settings, self._partitions, self._clock
        self._on_each(
            "retention",
            settings.log_retention_check_interval_ms,
            lambda partition: partition.log.apply_retention(clock.now_ms()),
            first_ms=settings.log_initial_task_delay_ms,
        )
        self._on_each(
            "expiry of producers",
            settings.producer_id_expiration_check_interval_ms,
            lambda partition: partition.log.expire_producers(clock.now_ms()),
        )
        every("removal of deleted files", DOOMED_FILES_CHECK_MS, self._remove_files)
        self._on_each("flush.ms", TIMED_FLUSH_CHECK_MS, lambda partition: partition.flush_if_due(), partitions.awaiting_flush)
        every("recovery point checkpoint", settings.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        every("high watermark checkpoint", settings.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_high_watermarks)
        if partitions.cluster_context is not None:
            every_ms = max(1, settings.replica_lag_time_max_ms // 2)
            self._on_each("ISR shrink", every_ms, lambda partition: partition.maybe_shrink_isr(), partitions.shrink_candidates)
        if settings.log_cleaner_enable:
            every("compaction", lambda: settings.log_cleaner_backoff_ms, self._clean)

    def _on_each(
        self,
        name: str,
        interval_ms: int,
        work: Callable[[Partition], object],
        among: Iterable[Partition] | None = None,
        *,
        first_ms: int | None = None,
    ) -> None:
        def job() -> Coroutine[object, object, None] | None:
            partitions = list(self._partitions if among is None else among)
            return self._each(name, work, partitions) if partitions else None

        self._nursery.every(name, interval_ms, job, first_ms=first_ms)

    async def _each(self, name: str, work: Callable[[Partition], object], partitions: Iterable[Partition]) -> None:
        """Call `work` for each of `partitions`, one after the other. If a call returns a future, wait for it before the next call. A
        failure is logged under `name`.
        """
        for partition in partitions:
            if partition.removed or partition.log.failure is not None:
                continue
            pending = None
            with self._nursery.step(f"{name} of %s-%d", partition.topic, partition.index):
                pending = work(partition)
            if isinstance(pending, asyncio.Future):
                await asyncio.wait([pending])
            await self._turns.wait_for_turn()

    async def _off_the_loop(self, steps: Iterable[Callable[[], None] | None]) -> bool:
        """Run each callable of `steps` on a flusher thread, one after the other. A None in `steps` lets other work use the event loop.
        Return whether there was any step. An exception of a step is raised.
        """
        any_step = False
        for step in steps:
            any_step = True
            await (self._turns.wait_for_turn() if step is None else self._flusher.run(step))
        return any_step

    async def _remove_files(self) -> None:
        """Remove deleted files from the disk, on a thread, because a file system may need long to unlink a gigabyte. If a removal fails,
        the next run removes the remaining files."""
        await self._off_the_loop(self._log_dir.due_deletions(self._clock.now_ms()))

    async def _checkpoint(self) -> None:
        """Write the recovery points that the syncs of the previous round have reached, then sync all partitions for the next round,
        FLUSH_THREADS at a time, because each sync holds file descriptors.

        The cleaner's offsets are written, too, for a replica that was truncated and became the leader before its fetcher wrote them.
        """
        log_dir = self._log_dir
        await self._off_the_loop([log_dir.recovery_point_checkpoint(), log_dir.log_start_checkpoint(), log_dir.cleaner_checkpoint()])
        begun: deque[asyncio.Future[None] | None] = deque()

        def flush(partition: Partition) -> asyncio.Future[None] | None:
            begun.append(partition.flush())
            return begun.popleft() if len(begun) > limits.FLUSH_THREADS else None

        await self._each("recovery point checkpoint", flush, list(self._partitions))

    async def _checkpoint_high_watermarks(self) -> None:
        await self._off_the_loop([self._log_dir.high_watermark_checkpoint()])

    async def _clean(self) -> None:
        """Compact one log after the other, the dirtiest first, until no log needs compaction (Kafka's CleanerThread).

        Compacting a log may not make it cleaner, so at most as many logs are compacted in one run as there are logs. The log cleaner is
        imported at the first run.
        """
        if self._cleaner is None:
            from ottla.broker.storage.log_cleaner_manager import LogCleanerManager  # noqa: PLC0415 # keeps it out of the start-up time

            self._cleaner = LogCleanerManager(self._log_dir.first_dirty_offsets, self._log_dir.cleaner_checkpoint)
        for _ in range(len(self._log_dir.logs)):
            if not await self._off_the_loop(self._cleaner.clean_dirtiest(self._log_dir.logs, self._clock.now_ms())):
                return

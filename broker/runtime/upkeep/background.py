"""The background jobs of a broker, each with the setting that gives its interval.

Invariants:
- A job handles one partition per step, so a slice is never longer than one partition's work. An offline partition is skipped, and a
  failure on one partition does not stop the work on the others.
- Disk operations that block run on the flusher's threads.
- A job with a short interval iterates only over partitions that have work for it, so 10,000 idle partitions cost nothing.
- A recovery point is written only after the sync that makes it true. Unsynced data is synced before each checkpoint, so a restart
  re-reads at most one interval's writes; Kafka syncs only when a segment rolls.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.housekeeping import Housekeeping
from ottla.broker.storage.errors import FsyncFailed
from ottla.broker.storage.log_dir import LogDir

if TYPE_CHECKING:
    from ottla.broker.storage.log_cleaner_manager import LogCleanerManager

logger = logging.getLogger(__name__)

TIMED_FLUSH_CHECK_MS = 100
"""How often partitions with flush.ms are checked."""

DOOMED_FILES_CHECK_MS = 1_000
"""How often deleted files are checked for file.delete.delay.ms."""


def start_background_work(
    housekeeping: Housekeeping, settings: BrokerSettings, clock: Clock, log_dir: LogDir, partitions: Partitions, *, flusher: Flusher
) -> None:
    """Schedule every job. `housekeeping.stop` ends them."""

    unsynced: set[Partition] = set()

    def each(work: Callable[[Partition], object], among: Iterable[Partition] = partitions) -> Callable[[], Iterator[None]]:
        failing: set[Partition] = set()
        return lambda: _each(among, work, failing)

    housekeeping.every(
        settings.log_retention_check_interval_ms,
        each(lambda partition: partition.log.apply_retention(clock.now_ms())),
        first_ms=settings.log_initial_task_delay_ms,
        name="retention",
    )
    housekeeping.every(
        settings.producer_id_expiration_check_interval_ms,
        each(lambda partition: partition.log.expire_producers(clock.now_ms())),
        name="expiry of producers",
    )
    # On a thread: unlinking a gigabyte can take a file system long. After a failure the remaining files are tried a second later.
    housekeeping.every(
        DOOMED_FILES_CHECK_MS,
        lambda: _off_the_loop(flusher, log_dir.doomed(clock.now_ms())),
        name="removal of deleted files",
    )
    housekeeping.every(TIMED_FLUSH_CHECK_MS, each(lambda partition: partition.flush_if_due(), partitions.timed), name="flush.ms")
    housekeeping.every(
        settings.log_flush_offset_checkpoint_interval_ms,
        lambda: _checkpoint(log_dir, partitions, flusher, unsynced),
        name="recovery point checkpoint",
    )
    housekeeping.every(
        settings.replica_high_watermark_checkpoint_interval_ms,
        lambda: _off_the_loop(flusher, [log_dir.high_watermark_checkpoint()]),
        name="high watermark checkpoint",
    )
    if partitions.membership is not None:
        housekeeping.every(
            max(1, settings.replica_lag_time_max_ms // 2),
            each(lambda partition: partition.look_for_laggards(), partitions.behind),
            name="ISR shrink",
        )
    if settings.log_cleaner_enable:
        housekeeping.every(lambda: settings.log_cleaner_backoff_ms, _cleaning(log_dir, flusher, clock), name="compaction")


def expire_tokens(
    housekeeping: Housekeeping, settings: BrokerSettings, clock: Clock, remove: Callable[[int], Coroutine[object, object, bool]]
) -> None:
    """Remove expired delegation tokens on a standalone node. `remove(now_ms)` returns whether more are left."""

    def sweep() -> Iterator[object]:
        more = True
        while more:
            done = asyncio.ensure_future(remove(clock.now_ms()))
            yield done
            more = done.result()

    housekeeping.every(settings.delegation_token_expiry_check_interval_ms, sweep, name="expiry of delegation tokens")


def _cleaning(log_dir: LogDir, flusher: Flusher, clock: Clock) -> Callable[[], Iterator[object]]:
    """Return the cleaner's job. The cleaner is imported at its first turn."""
    cleaner: LogCleanerManager | None = None

    def clean() -> Iterator[object]:
        nonlocal cleaner
        if cleaner is None:
            from ottla.broker.storage.log_cleaner_manager import LogCleanerManager  # noqa: PLC0415 # keeps it out of the start-up time

            cleaner = LogCleanerManager(log_dir.cleaned, log_dir.cleaner_checkpoint)
        return _off_the_loop(flusher, cleaner.clean_dirtiest(log_dir.logs, clock.now_ms()))

    return clean


def _each(partitions: Iterable[Partition], work: Callable[[Partition], object], failing: set[Partition]) -> Iterator[None]:
    """Do `work` on each partition, one per step. `failing` holds the partitions that failed last time: each failure is logged once.

    Raises FsyncFailed.
    """
    for partition in list(partitions):
        if partition.removed or partition.log.failure is not None:
            continue
        try:
            work(partition)
            failing.discard(partition)
        except FsyncFailed:
            raise
        except Exception as error:  # a bug that one partition meets must not stop the work on the others
            if partition not in failing:
                failing.add(partition)
                trace = None if isinstance(error, OSError | Rejected) else error
                logger.error("Background work on %s-%d failed: %s", partition.topic, partition.index, error, exc_info=trace)
        yield


def _off_the_loop(flusher: Flusher, steps: Iterable[Callable[[], None] | None]) -> Iterator[asyncio.Future[None] | None]:
    """Run each callable of `steps` on a thread, one after the other. Raises what it raises."""
    for step in steps:
        done = None if step is None else flusher.run(step)
        yield done
        if done is not None:
            done.result()


def _checkpoint(log_dir: LogDir, partitions: Partitions, flusher: Flusher, failing: set[Partition]) -> Iterator[object]:
    """Write what the last round synced to the checkpoint, then start this round's syncs, a few at a time: each holds file descriptors."""
    yield from _off_the_loop(flusher, [log_dir.recovery_point_checkpoint(), log_dir.log_start_checkpoint()])
    begun: deque[asyncio.Future[None] | None] = deque()
    for _ in _each(partitions, lambda partition: begun.append(partition.flush()), failing):
        yield begun.popleft() if len(begun) > limits.FLUSH_THREADS else None

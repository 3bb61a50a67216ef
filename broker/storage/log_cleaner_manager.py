"""Chooses which log to clean, and remembers up to which offset each log is clean (Kafka's LogCleanerManager).

Invariants: one log at a time, the one with the greatest dirty ratio; a log with a corrupt batch is logged once and skipped until the next
start; an offset is recorded only after its segments are in place. A lost checkpoint costs work, never data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from weakref import WeakSet

from ottla.broker.storage.log_cleaner import Cleaning, clean_log, dirtiness, needs_cleaning
from ottla.broker.storage.partition_log import PartitionLog
from ottla.protocol.records.errors import RecordsError

logger = logging.getLogger(__name__)

Key = tuple[str, int]
Blocking = Callable[[], None]


class LogCleanerManager:
    """Cleans the dirtiest log of a data directory.

    `cleaned` has the first dirty offset of each log, by partition; `LogDir` uses the same mapping. `checkpoint` returns a function that
    writes `cleaned` to disk.
    """

    def __init__(self, cleaned: dict[Key, int], checkpoint: Callable[[], Blocking]) -> None:
        self._cleaned = cleaned
        self._checkpoint = checkpoint
        self._uncleanable: WeakSet[PartitionLog] = WeakSet()
        self._refused: WeakSet[PartitionLog] = WeakSet()

    def clean_dirtiest(self, logs: Mapping[Key, PartitionLog], now_ms: int) -> Iterator[Blocking | None]:
        """Clean the log with the greatest dirty ratio among those that need it, in slices.

        A yielded callable blocks: the caller runs it on any thread before the next slice. The generator and these callables raise
        `OSError`, including `FsyncFailed`.
        """
        key = self._choose(logs, now_ms)
        if key is None:
            return
        log = logs[key]
        before, generation = log.size_bytes, log.generation
        try:
            end = yield from _blocking(clean_log(log, self._cleaned.get(key, 0), now_ms))
        except RecordsError as e:
            self._mark_uncleanable(key, log, e)
            return
        except OSError:
            self._refused.add(log)
            raise
        self._refused.discard(log)
        if logs.get(key) is log and log.generation == generation:  # a truncation lowers the first dirty offset itself
            logger.info("Compacted %s-%d up to offset %d: %d bytes became %d", *key, end, before, log.size_bytes)
            self._cleaned[key] = end
            yield self._checkpoint()

    def _choose(self, logs: Mapping[Key, PartitionLog], now_ms: int) -> Key | None:
        """Return the key (topic, partition) of the dirtiest log that needs cleaning, None if no log does. A log whose last pass had an
        `OSError` is chosen only if there is no other."""
        found: list[tuple[bool, float, Key]] = []
        for key, log in logs.items():
            if log.config.compacts and log.failure is None and log not in self._uncleanable and len(log.segments) > 1:
                try:
                    dirty = dirtiness(log, self._cleaned.get(key, 0), now_ms)
                    if needs_cleaning(log, dirty, now_ms):
                        found.append((log not in self._refused, dirty.ratio, key))
                except RecordsError as e:
                    self._mark_uncleanable(key, log, e)
        return max(found)[2] if found else None

    def _mark_uncleanable(self, key: Key, log: PartitionLog, damage: RecordsError) -> None:
        self._uncleanable.add(log)
        logger.error("%s-%d has a corrupt batch and is not compacted any more: %s", *key, damage)


def _blocking(cleaning: Cleaning) -> Generator[Blocking | None, None, int]:
    """Run a cleaning pass. Yield its blocking work as callables, None after any other slice. Return the log's new first dirty offset."""
    while True:
        try:
            ticket = next(cleaning)
        except StopIteration as stop:
            return int(stop.value)
        yield None if ticket is None else ticket.sync

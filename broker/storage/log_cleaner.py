"""Cleans one log: reads its segments, writes compacted ones, and replaces the old ones (Kafka's Cleaner, UnifiedLog.replaceSegments).

Invariants:

* Work is done in slices: a `Cleaning` is a generator that yields after each slice, so that the event loop can do other work. If it yields a
  `BlockingWork`, the caller runs that object's `sync` on any thread before the next slice. `sync` takes up to seconds: it syncs files, or
  decodes a batch that is compressed or has many records.
* Appends, rolls, retention, DeleteRecords and truncations may happen between slices. If a segment being cleaned was removed from the log,
  or the log was deleted or truncated, the pass ends without effect.
* Never cleaned: the active segment, records at or above the last stable offset, records younger than min.compaction.lag.ms.
* The files go `.cleaned` -> synced -> `.swap` -> old ones `.deleted` -> final name; `swap.finish_swaps` completes or undoes an interrupted
  replacement after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ottla.broker.core import limits
from ottla.broker.storage.compaction import BatchCleaner, CleaningRules, LastOfProducer, OffsetMap
from ottla.broker.storage.files import Files
from ottla.broker.storage.flush import FlushTicket
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.segment import INT32_MAX, Segment
from ottla.protocol.records.batch import CODEC_MASK, BatchHeader, read_header
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.wire import Buffer

INDEX_ENTRY_BYTES_MAX: Final = 12
"""The size in bytes of an entry of the time index. An entry of the offset index is smaller: 8 bytes."""

T = TypeVar("T")


class BlockingWork(Protocol):
    """Work of the log cleaner that would block the event loop for too long. The caller runs `sync` on any thread."""

    def sync(self) -> None: ...


class _PassEnded(Exception):
    """The log was deleted or truncated, or the segment that is being cleaned was removed from it, since the pass began."""


class _BatchWork(Generic[T]):
    """The decoding and processing of one batch, which `sync` does on any thread. `result` returns the work's result afterwards; if the
    batch is corrupt, `result` raises the `RecordsError`, and `sync` raises nothing."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._result: T
        self._error: RecordsError | None = None

    def sync(self) -> None:
        try:
            self._result = self._work()
        except RecordsError as error:
            self._error = error

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result


Check = Callable[[Segment], None]
"""Raises _PassEnded unless a pass may still read the segment: `_check_segment` for the log of the pass."""


def _run_batch_work(check: Check, segment: Segment, header: BatchHeader, work: Callable[[], T]) -> Generator[BlockingWork, None, T]:
    """Do `work`, which decodes and processes one batch of `segment`, and return its result. If the batch is compressed or large, yield the
    work as `BlockingWork`, so that the caller does it on a thread, and `check` the segment afterwards.
    """
    if not header.attributes & CODEC_MASK and header.record_count <= limits.CLEANED_AT_ONCE_RECORDS:
        return work()
    on_thread = _BatchWork(work)
    yield on_thread
    check(segment)
    return on_thread.result()


Cleaning = Generator[BlockingWork | None, None, int]
"""One cleaning pass over a log, in slices: a generator that yields None after a slice, or `BlockingWork` that the caller must run before
the next slice. It returns the offset up to which the log is clean, which is the next pass's first dirty offset."""


class Dirtiness(NamedTuple):
    """A log's clean and dirty bytes. The offsets from `first_dirty` to `end` (excluded) are the part that can be cleaned now."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int

    @property
    def ratio(self) -> float:
        """The dirty ratio: dirty bytes divided by dirty and clean bytes. A log is cleaned if it exceeds min.cleanable.dirty.ratio."""
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0


def dirtiness(log: PartitionLog, first_dirty: int, now_ms: int) -> Dirtiness:
    """Measure the log's clean bytes, below the cleaner's checkpoint `first_dirty`, and its dirty bytes, up to the first uncleanable offset.

    A `first_dirty` outside the log is replaced by the log start (LogCleanerManager.cleanableOffsets).
    """
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    end = min(log.last_stable_offset, log.segments.active.base_offset)
    clean_bytes = dirty_bytes = 0
    for segment in log.segments:
        next_base = log.segments.next_base(segment)
        if segment.base_offset >= end or next_base is None:
            break
        if log.config.min_compaction_lag_ms > 0 and segment.largest_timestamp() > now_ms - log.config.min_compaction_lag_ms:
            end = min(end, segment.base_offset)
            break
        if next_base <= first_dirty:
            clean_bytes += segment.size
        else:
            dirty_bytes += segment.size
    return Dirtiness(first_dirty, max(end, first_dirty), clean_bytes, dirty_bytes)


def needs_cleaning(log: PartitionLog, found: Dirtiness, now_ms: int) -> bool:
    """Return whether the dirty ratio is exceeded, or the first record of a dirty segment is older than
    max.compaction.lag.ms (Kafka's LogCleanerManager.maxCompactionDelay)."""
    if found.end <= found.first_dirty:
        return False
    if found.ratio > log.config.min_cleanable_dirty_ratio:
        return True
    before_ms = now_ms - log.config.max_compaction_lag_ms
    if before_ms <= 0:
        return False
    dirty = (each for each in log.segments.from_offset(found.first_dirty) if each is not log.segments.active)
    return any(each.size and 0 < each.header_at(0).max_timestamp < before_ms for each in dirty)


def clean_log(log: PartitionLog, first_dirty: int, now_ms: int) -> Cleaning:
    """Make one cleaning pass over `log`, in slices: the result is a generator that returns the new first dirty offset, or the old one if a
    segment was removed or the log was truncated meanwhile. After a truncation (`log.generation` has changed), neither is of use.

    Raises `RecordsError` for a corrupt batch, and `OSError`. An `OSError` while segments are replaced takes the log offline.
    """
    found = dirtiness(log, first_dirty, now_ms)
    try:
        return (yield from _clean(log, found, partial(_check_segment, log, log.generation), now_ms))
    except _PassEnded:
        return found.first_dirty


def _clean(log: PartitionLog, found: Dirtiness, check: Check, now_ms: int) -> Cleaning:
    aborted = [txn for segment in log.segments for txn in segment.txn_index.entries()]
    # The first pass starts at the first dirty offset, so it cannot see the markers of transactions that ended before that offset.
    keys = OffsetMap(limits.COMPACTION_KEYS, [txn for txn in aborted if txn.last_offset >= found.first_dirty])
    yield from _build_offset_map(keys, log, found, check)
    end = keys.end_offset
    if end <= found.first_dirty:
        return found.first_dirty
    last = {p.producer_id: LastOfProducer(p.last_offset, p.producer_epoch) for p in log.producers()}
    cleaner = BatchCleaner(CleaningRules(keys.latest, end, last, now_ms, log.config.delete_retention_ms), aborted)
    for group in _groups(log, end):
        writer = _Writer(log, log.files, log.open_files, group)
        try:
            yield from writer.write(cleaner, check)
            writer.replace_group(now_ms)
        finally:
            writer.remove_cleaned_files()
    return end


def _build_offset_map(keys: OffsetMap, log: PartitionLog, found: Dirtiness, check: Check) -> Generator[BlockingWork | None, None, None]:
    """Make the first pass of compaction: add the dirty range's batches to `keys`, up to the end of the range or until the map is full."""
    read = 0
    for segment in log.segments.from_offset(found.first_dirty):
        if segment.base_offset >= found.end:
            return
        check(segment)
        for _, header, batch in segment.whole_batches(0):
            if header.last_offset < found.first_dirty:
                continue
            if header.next_offset > found.end or not (yield from _run_batch_work(check, segment, header, partial(keys.add, batch, header))):
                return
            read += len(batch)
            if read >= limits.COMPACTION_SLICE_BYTES:
                read = 0
                yield None
                check(segment)


def _check_segment(log: PartitionLog, generation: int, segment: Segment) -> None:
    """Raise _PassEnded if `log` was deleted, or truncated since `generation`, or if this segment object is no longer one of its segments.

    The object is compared, not its file name, because a new topic may use the same names. A truncation keeps the object of a segment that
    it shortens, and the pass may have seen the records that were removed (Kafka's LogManager.truncateTo aborts the cleaning, too).
    """
    if log.failure is not None or log.generation != generation or not any(s is segment for s in log.segments):
        raise _PassEnded


def _groups(log: PartitionLog, end: int) -> list[list[Segment]]:
    """Return the inactive segments below offset `end`, in groups of neighbours. Each group is compacted into one segment, so its segments
    together fit into segment.bytes and its index entries into segment.index.bytes (Cleaner.groupSegmentsBySize).
    """
    config = log.config
    groups: list[list[Segment]] = []
    size = indexes = 0
    for segment in log.segments:
        next_base = log.segments.next_base(segment)
        if segment.base_offset >= end or next_base is None:
            break
        size += segment.size
        indexes += len(segment.offset_index) + len(segment.time_index)
        fits = bool(groups) and size <= config.segment_bytes and indexes * INDEX_ENTRY_BYTES_MAX <= config.segment_index_bytes
        if fits and next_base - groups[-1][0].base_offset <= INT32_MAX:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, indexes = segment.size, len(segment.offset_index) + len(segment.time_index)
    return groups


class _Writer:
    """Writes the kept records of a group of segments to one new segment, and replaces the group by it."""

    def __init__(self, log: PartitionLog, files: Files, open_files: OpenFiles, group: list[Segment]) -> None:
        self._log = log
        self._files = files
        self._open_files = open_files
        self._group = group
        self._placed = False
        self._new = self._segment(fresh=True, size=0)
        self._final = self._new.paths()
        for part in (self._new, self._new.offset_index, self._new.time_index, self._new.txn_index):
            part.path = _with_suffix(part.path, ".cleaned")

    def _segment(self, *, fresh: bool, size: int) -> Segment:
        first = self._group[0]
        return Segment(
            self._files,
            self._open_files,
            self._log.directory,
            first.base_offset,
            size=size,
            created_ms=self._group[-1].created_ms,
            jitter_ms=first.jitter_ms,
            fresh=fresh,
        )

    def write(self, cleaner: BatchCleaner, check: Check) -> Generator[BlockingWork | None, None, None]:
        """Write the batches of the group's segments that `cleaner` keeps to `.cleaned` files, and sync them. `check` each segment before,
        after each slice, and at the end.
        """
        for segment in self._group:
            check(segment)
        self._new.create_files()
        read = 0
        for segment in self._group:
            for _, header, batch in segment.whole_batches(0):
                kept = yield from _run_batch_work(check, segment, header, partial(cleaner.clean, batch, header))
                self._keep(cleaner, batch, header, kept)
                read += len(batch)
                if read >= limits.COMPACTION_SLICE_BYTES:
                    read = 0
                    yield None
                    check(segment)
        self._new.finish()
        indexes = [path for path in self._new.paths()[1:] if self._files.exists(path)]
        yield FlushTicket(self._files, offset=0, generation=0, fds=[self._files.dup(self._new.fd)], paths=indexes)
        for segment in self._group:
            check(segment)

    def _keep(self, cleaner: BatchCleaner, batch: memoryview, header: BatchHeader, kept: Buffer | None) -> None:
        if kept is not None:
            if kept is not batch:
                header = read_header(kept)
            self._new.append((kept,), len(kept), header.last_offset, header.max_timestamp, self._log.config.index_interval_bytes)
        for txn in cleaner.take_still_aborted():
            self._new.txn_index.append(txn)

    def replace_group(self, now_ms: int) -> None:
        """Replace the group's segments by the new one. An `OSError` between the renames takes the log offline; the next start completes or
        undoes the renames."""
        log, files = self._log, self._files
        mtime_ms = max(files.mtime_ms(segment.path) for segment in self._group)
        size = self._new.size
        self._new.release()
        files.set_mtime_ms(self._new.path, mtime_ms)
        log.segments.replace(self._group, [self._segment(fresh=False, size=size)])
        log.segments_replaced()
        try:
            # The .log file is the last to become .swap and the first to lose the suffix: recovery decides by it (`swap.finish_swaps`).
            for final in reversed(self._final):
                self._rename(_with_suffix(final, ".cleaned"), _with_suffix(final, ".swap"))
            files.sync_dir(log.directory)
            for segment in self._group:
                log.delete_segment_files(segment, now_ms, with_snapshot=segment is not self._group[0])
            for final in self._final:
                self._rename(_with_suffix(final, ".swap"), final)
            files.sync_dir(log.directory)
        except OSError as e:
            log.fail(e)
            raise
        self._placed = True

    def _rename(self, old: Path, new: Path) -> None:
        if self._files.exists(old):
            self._files.rename(old, new)

    def remove_cleaned_files(self) -> None:
        """Remove the `.cleaned` files of a segment that has not replaced its group."""
        self._new.release()
        if not self._placed and self._log.failure is None:
            for final in self._final:
                self._files.remove(_with_suffix(final, ".cleaned"))


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)

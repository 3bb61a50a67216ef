"""One segment: a `.log` file of batches and its indexes (Kafka's LogSegment).

Invariants:
* `size` is the byte position of the next batch. The file is longer only after a failed write that could not be truncated; then the
  segment is not written any more.
* A batch gets an index entry when more than index.interval.bytes were appended since the last entry, not counting the batch itself. A
  segment's first batch therefore never has an entry.
* Rolling by time uses the records' timestamps; the clock only decides if they have none (LogSegment.timeWaitedForRoll).
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.files import Files
from ottla.broker.storage.offset_index import OffsetIndex
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.time_index import TimeIndex
from ottla.broker.storage.txn_index import TxnIndex
from ottla.protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC_END, BatchHeader, read_header
from ottla.protocol.records.errors import CorruptBatch
from ottla.protocol.wire import Buffer

logger = logging.getLogger(__name__)

_LEGACY: Final = Struct(">qiIb")
READ_ONLY: Final = {errno.EROFS, errno.EACCES, errno.EPERM}
"""Errors (errno) that show that a file cannot be opened for writing. It is then opened read-only, so that consumers can still be served."""
INT32_MAX: Final = 2**31 - 1
SCAN_BYTES: Final = 8 << 10
"""The number of bytes per read when the batch with a given offset is searched: two index intervals (index.interval.bytes)."""
REPLAY_BYTES: Final = 256 << 10
"""The number of bytes per read when all batches of a segment are read."""


def any_header(data: bytes, at: int = 0) -> BatchHeader:
    """Return the header of the record batch, or of the old message of magic 0 or 1, at byte `at` of `data`. Raises `CorruptBatch` if there
    is neither.

    A message gets the header of a batch of one record without timestamps, leader epoch and producer.
    """
    if len(data) - at >= MAGIC_END and data[at + 16] < 2:
        base_offset, length, crc, magic = _LEGACY.unpack_from(data, at)
        return BatchHeader(base_offset, length, -1, magic, crc, 0, 0, -1, -1, -1, -1, -1, 1)
    header = read_header(data, at)
    if header.magic != 2:
        raise CorruptBatch(f"magic {header.magic}")
    return header


class Segment:
    """One segment of a log: its `.log` file and its indexes. `created_ms` is the time when the segment was created or loaded. `jitter_ms`
    is subtracted from segment.ms: a random number below segment.jitter.ms. If `fresh` is true, there are no index files to read.

    With `make_directory` the segment is only in memory: its first write calls `make_directory` and creates the files.
    """

    __slots__ = (
        "_bytes_since_index",
        "_directory",
        "_fd",
        "_files",
        "_fresh",
        "_index_grew",
        "_make_directory",
        "_max_timestamp",
        "_offset_index",
        "_offset_of_max_timestamp",
        "_open_files",
        "_path",
        "_rolling_timestamp",
        "_time_index",
        "_txn_index",
        "_write_fd",
        "base_offset",
        "created_ms",
        "jitter_ms",
        "size",
    )

    def __init__(
        self,
        files: Files,
        open_files: OpenFiles,
        directory: Path,
        base_offset: int,
        *,
        size: int,
        created_ms: int,
        jitter_ms: int = 0,
        fresh: bool = False,
        make_directory: Callable[[], None] | None = None,
    ) -> None:
        self._files = files
        self._open_files = open_files
        self._fd = self._write_fd = -1
        """The open file's descriptor, -1 if closed. `_write_fd` is the same descriptor, but -1 before the first write: that write first
        replaces a file with several hard links by a copy (`Files.break_hard_links`)."""
        self._make_directory = make_directory
        self._directory = directory
        self._path: Path | None = None
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self._fresh = fresh
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TxnIndex | None = None
        self._max_timestamp: int | None = -1 if fresh else None
        self._offset_of_max_timestamp = base_offset
        self._rolling_timestamp: int | None = None
        self._bytes_since_index = 0
        self._index_grew = True

    # The paths and indexes below are created at their first use: of 10,000 partitions, most are never used.

    @property
    def path(self) -> Path:
        """The path of the `.log` file, which has the batches."""
        if self._path is None:
            self._path = self._named(".log")
        return self._path

    @path.setter
    def path(self, path: Path) -> None:
        self._path = path

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._offset_index = OffsetIndex(self._files, self._named(".index"), self.base_offset, fresh=self._fresh)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._time_index = TimeIndex(self._files, self._named(".timeindex"), self.base_offset, fresh=self._fresh)
        return self._time_index

    @property
    def txn_index(self) -> TxnIndex:
        if self._txn_index is None:
            self._txn_index = TxnIndex(self._files, self._named(".txnindex"), self.base_offset, fresh=self._fresh)
        return self._txn_index

    def _named(self, suffix: str) -> Path:
        return self._directory / f"{self.base_offset:020d}{suffix}"

    @property
    def _indexes(self) -> Iterator[OffsetIndex | TimeIndex | TxnIndex]:
        """The segment's indexes that exist in memory: each is created when it is first used."""
        return (index for index in (self._offset_index, self._time_index, self._txn_index) if index is not None)

    # --- files ---------------------------------------------------------------------------------------------------------------

    def create_files(self) -> None:
        """Create the three files that Kafka expects of a segment: `.log`, `.index`, `.timeindex`. Raises `OSError`."""
        if self.is_on_disk:
            self._files.truncate(self._to_write(), 0)
            self.offset_index.create_file()
            self.time_index.create_file()
        else:
            self._create_on_disk()

    @property
    def is_on_disk(self) -> bool:
        """Whether the segment's files exist: false while it is only in memory (`recovery.new_log`)."""
        return self._make_directory is None

    def _create_on_disk(self) -> None:
        """Create the directory and the files of a segment that is only in memory. Raises `OSError`; the next call then repeats all
        steps."""
        assert self._make_directory is not None
        self._make_directory()
        fd = self._open()
        try:
            self.offset_index.create_file()
            self.time_index.create_file()
        except OSError:
            self._files.close(fd)
            raise
        self._make_directory = None
        self._hold(fd)

    def _hold(self, fd: int) -> None:
        self._open_files.opened(self)
        self._fd = fd

    @property
    def is_open(self) -> bool:
        """Whether the segment has an open file descriptor."""
        return self._fd >= 0

    @property
    def fd(self) -> int:
        if self._fd < 0:
            if self._make_directory is None:
                self._hold(self._open())
            else:
                self._create_on_disk()
        return self._fd

    def _to_write(self) -> int:
        """Return a descriptor for writing. A file that has several hard links is first replaced by a copy. Raises `OSError`."""
        if self._write_fd < 0:
            if self.is_on_disk:
                if self.is_open:
                    self._close()
                self._files.break_hard_links(self.path)
            self._write_fd = self.fd
        return self._write_fd

    def _close(self) -> None:
        self._files.close(self._fd)
        self._fd = self._write_fd = -1
        self._open_files.closed(self)

    def _open(self) -> int:
        try:
            return self._files.open(self.path)
        except OSError as e:
            if e.errno not in READ_ONLY:
                raise
            return self._files.open_read(self.path)

    # --- appending -----------------------------------------------------------------------------------------------------------

    def should_roll(self, config: LogConfig, incoming_bytes: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        """Return whether a batch of `incoming_bytes`, with this maximum timestamp (ms) and last offset, must begin a new segment.

        False for an empty segment. Raises OSError or CorruptBatch if the segment's first batch must be read and cannot be
        (LogSegment.shouldRoll).
        """
        size = self.size
        if not size:
            return False
        if size > config.segment_bytes - incoming_bytes or last_offset - self.base_offset > INT32_MAX:
            return True
        first = self._rolling_timestamp
        if first is None:
            first = self._rolling_timestamp = self.header_at(0).max_timestamp
        waited_ms = max_timestamp - first if first >= 0 and max_timestamp >= 0 else now_ms - self.created_ms
        if waited_ms > config.max_segment_ms - self.jitter_ms:
            return True
        if self._index_grew:
            limit = config.segment_index_bytes
            self._index_grew = self.offset_index.is_full(limit) or self.time_index.is_full(limit)
        return self._index_grew

    def append(self, buffers: Sequence[Buffer], size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Write one batch of `size` bytes. Raises `OSError`; then `size` and indexes are unchanged, and the caller must call
        `truncate_failed_write`."""
        position = self.size
        if self._bytes_since_index > index_interval:  # loaded now, because nothing may fail once the batch is written
            self.offset_index.load()
            self.time_index.load()
        self._files.pwrite(self._write_fd if self._write_fd >= 0 else self._to_write(), buffers, position)
        self._note(position, size, last_offset, max_timestamp, index_interval)
        self.size = position + size

    def _note(self, position: int, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Update the segment's timestamps and its indexes for a batch that was written at byte `position`."""
        if position == 0:
            self._rolling_timestamp = max_timestamp
        newest = self._max_timestamp
        if max_timestamp > (self.max_timestamp if newest is None else newest):
            self._max_timestamp = max_timestamp
            self._offset_of_max_timestamp = last_offset
        if self._bytes_since_index > index_interval:
            self._index_grew = True
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self._offset_of_max_timestamp)
            self._bytes_since_index = 0
        self._bytes_since_index += size

    def truncate_failed_write(self) -> None:
        """Remove the bytes of a failed write: truncate the file to `size`, the end of the last complete batch. Raises `OSError`."""
        if self.is_on_disk and self._files.size(self.fd) != self.size:
            self._files.truncate(self._to_write(), self.size)

    # --- timestamps ----------------------------------------------------------------------------------------------------------

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp of the segment's records, -1 if unknown."""
        if self._max_timestamp is None:
            self._load_max_timestamp()
        assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch with the segment's greatest timestamp."""
        _ = self.max_timestamp
        return self._offset_of_max_timestamp

    def _load_max_timestamp(self) -> None:
        last = self.time_index.last()
        self._max_timestamp, self._offset_of_max_timestamp = last if last is not None else (-1, self.base_offset)

    def largest_timestamp(self) -> int:
        """Return the timestamp (ms) that retention.ms applies to: the maximum, or the file's modification time if no record has one."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._files.mtime_ms(self.path)

    # --- reading -------------------------------------------------------------------------------------------------------------

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes at `position`; empty beyond the segment's end, to which an index may point after a crash."""
        return self._files.pread(self.fd, max(min(size, self.size - position), 0), position)

    def header_at(self, position: int) -> BatchHeader:
        """Return the batch header at byte `position`. Raises `CorruptBatch` if there is no valid one."""
        return any_header(self.pread(HEADER_BYTES, position))

    def batches(self, position: int = 0, *, chunk: int = SCAN_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) of each batch from `position` on, reading headers only. Raises `CorruptBatch` at an invalid one."""
        data = b""
        start = position
        while position < self.size:
            if position + HEADER_BYTES > start + len(data):
                start = position
                data = self.pread(chunk, start)
            header = any_header(data, position - start)
            end = self._end_of(header, position)
            yield position, header
            position = end

    def whole_batches(self, position: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield (position, header, bytes) of each batch from `position` on. Raises `CorruptBatch` at an invalid or incomplete one."""
        data = b""
        start = position
        while position < self.size:
            if position + HEADER_BYTES > start + len(data):
                start = position
                data = self.pread(REPLAY_BYTES, start)
            header = any_header(data, position - start)
            end = self._end_of(header, position)
            if end > start + len(data):
                start = position
                data = self.pread(max(REPLAY_BYTES, end - position), start)
            yield position, header, memoryview(data)[position - start : end - start]
            position = end

    def _end_of(self, header: BatchHeader, position: int) -> int:
        size = header.batch_length + LOG_OVERHEAD
        if size < (HEADER_BYTES if header.magic == 2 else MAGIC_END) or position + size > self.size:
            raise CorruptBatch(f"a batch of {size} bytes at byte {position} of a segment of {self.size}")
        return position + size

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return (position, header) of the first batch whose last offset is at least `offset`, None if there is none.

        If the index entry is wrong, the segment is scanned from its start. Raises `CorruptBatch` at an invalid batch.
        """
        start = self.offset_index.lookup(offset)
        if 0 < start < self.size:
            try:
                return self._find_from(start, offset)
            except CorruptBatch as e:
                logger.warning(
                    "%s does not lead to offset %d (%s); the segment is scanned from its start", self.offset_index.path, offset, e
                )
        return self._find_from(0, offset)

    def _find_from(self, start: int, offset: int) -> tuple[int, BatchHeader] | None:
        for position, header in self.batches(start):
            if start == position > 0 and header.base_offset > offset:
                raise CorruptBatch(f"offset {header.base_offset} at byte {position}")
            if header.last_offset >= offset:
                return position, header
        return None

    # --- truncate, save, release -----------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Remove the batch that contains `offset` and all later ones. Return the number of bytes removed. Raises `OSError`."""
        found = self.find(offset)
        if found is None:
            return 0
        position = found[0]
        dropped = self.size - position
        self.truncate_at(position, found[1].base_offset)
        return dropped

    def truncate_at(self, position: int, offset: int) -> None:
        """Truncate the `.log` file at byte `position`, where the batch with base offset `offset` begins, and remove the index entries from
        there on."""
        self._files.truncate(self._to_write(), position)
        self.size = position
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.resume()

    def resume(self) -> int:
        """Prepare a loaded or truncated segment for appends. Return its end offset, which is the offset of the next record.

        Only the headers after the last index entry are read. Raises `CorruptBatch` if the index contradicts the file, or the last batch is
        incomplete.
        """
        self._load_max_timestamp()
        self._rolling_timestamp = None
        last = self.offset_index.last()
        start = last[1] if last else 0
        self._bytes_since_index = self.size - start
        if last and (not 0 <= start < self.size or self.header_at(start).last_offset != last[0]):
            raise CorruptBatch(f"the index says that the batch with last offset {last[0]} is at byte {start} of {self.size}")
        end_offset = self.base_offset
        for _, header in self.batches(start):
            end_offset = header.next_offset
            if header.max_timestamp > self.max_timestamp:
                self._max_timestamp, self._offset_of_max_timestamp = header.max_timestamp, header.last_offset
        return end_offset

    def trust_indexes_below(self, offset: int) -> int:
        """Before recovery, keep the index entries below `offset`, whose batches were flushed; drop the others.

        Return the byte position from which recovery must verify every batch. If an index is invalid, drop all entries and return 0.
        """
        self.offset_index.truncate_to(offset)
        last = self.offset_index.last()
        if last is None or not self.offset_index.is_sorted() or not self.time_index.is_sorted():
            return self.distrust_indexes()
        try:
            if self.header_at(last[1]).last_offset != last[0]:
                return self.distrust_indexes()
            self.txn_index.truncate_to(last[0])
        except (CorruptBatch, ValueError):
            return self.distrust_indexes()
        self.time_index.truncate_to(last[0])
        self.offset_index.truncate_to(last[0])
        self._load_max_timestamp()
        self._rolling_timestamp = None
        before = self.offset_index.last()
        self._bytes_since_index = last[1] - (before[1] if before else 0)
        return last[1]

    def distrust_indexes(self) -> int:
        """Drop all index entries, so that recovery verifies the whole segment. Return 0, the byte position from which it must verify."""
        self.reset_indexes()
        return 0

    def reset_indexes(self) -> None:
        """Remove all entries of the segment's indexes: recovery rebuilds them from the batches with `note_recovered`."""
        self.offset_index.clear()
        self.time_index.clear()
        self.txn_index.clear()
        self._max_timestamp, self._offset_of_max_timestamp = -1, self.base_offset
        self._rolling_timestamp = None
        self._bytes_since_index = 0

    def note_recovered(self, position: int, header: BatchHeader, index_interval: int) -> None:
        """Add a batch that recovery has verified to the indexes. Recovery calls this for each batch in order."""
        self._note(position, header.size_bytes, header.last_offset, header.max_timestamp, index_interval)

    def finish(self) -> None:
        """Add the time index's last entry and write all indexes, when the segment becomes inactive or is closed. Raises `OSError`."""
        if self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self._offset_of_max_timestamp)
        self.save_indexes()

    def save_indexes(self) -> None:
        for index in self._indexes:
            index.save()

    def paths(self) -> list[Path]:
        """Return the paths of the segment's files, the `.log` file first. The transaction index among them may not exist."""
        return [self.path, self.offset_index.path, self.time_index.path, self.txn_index.path]

    def release(self) -> None:
        """Close the file and free the indexes' memory; index entries that are not in the file yet stay in memory."""
        if self.is_open:
            self._close()
        self._fresh = False
        for index in self._indexes:
            index.release()

    def remove(self) -> None:
        """Close the segment and remove its files. Raises `OSError`."""
        self.release()
        for path in self.paths():
            self._files.remove(path)

"""Reads a log: the bytes of one segment for a Fetch, or the record that a timestamp leads to (ListOffsets).

Invariants:
* A read never crosses a segment's end. It starts at the batch that contains the offset. Its last batch may be incomplete, never its first.
* `_positions` caches the byte positions of recently used offsets, so that a reader at the log's end needs no index look-up. It is cleared
  whenever bytes move (truncation, compaction).
* A first batch with an impossible length raises `CorruptBatch`; its bytes are never returned.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar

from ottla.broker.core import limits
from ottla.broker.core.log_config import INT64_MAX
from ottla.broker.storage.log_values import MAX_TIMESTAMP, TimestampOffset
from ottla.broker.storage.segment import Segment
from ottla.broker.storage.segment_list import SegmentList
from ottla.protocol.records import walk
from ottla.protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader
from ottla.protocol.records.errors import BatchTooLarge, CorruptBatch
from ottla.protocol.records.record import DECOMPRESSED_MAX_BYTES, records_section

POSITIONS_REMEMBERED: Final = 32
"""The maximum number of cached byte positions: for the high watermark, the last stable offset, and a few readers that lag a little."""

SMALLEST_BATCH: Final = LOG_OVERHEAD + 14
"""The smallest valid size of a batch in bytes: that of an empty message in the oldest format (Kafka's LegacyRecord.RECORD_OVERHEAD_V0)."""

_LENGTH: Final = struct.Struct(">i")


T = TypeVar("T")
Work = Callable[[], TimestampOffset | None]
Search = Generator[Work, Work, T]
"""A search for a timestamp, as a generator. If searching a batch would block the event loop for too long, the generator yields this work.
The caller does the work, for instance on a thread, and sends a function that returns the result of the work or raises its error. After
every SEARCHED_AT_ONCE_BATCHES batch headers the generator yields work that does nothing, so that other requests are served. The log may
change meanwhile, so the generator then looks up its position again."""


def finish(search: Generator[Work, Work, T]) -> T:
    """Run a search for a timestamp to its end on this thread, without pause, and return its result."""
    try:
        work = next(search)
        while True:
            work = search.send(work)
    except StopIteration as end:
        result: T = end.value
        return result


class FetchDataInfo(NamedTuple):
    """The result of a read: bytes of `segment` that end at its byte `end_position`. If `on_older_segment` is true, a later segment has more
    records that the reader may read. A read of any size would find at most `available_bytes` in `segment`."""

    records: bytes
    segment: Segment
    end_position: int
    on_older_segment: bool
    available_bytes: int


class LogReader:
    """Reads one log, which consists of `segments`. Its only state is a cache of byte positions."""

    __slots__ = ("_positions", "segments")

    def __init__(self, segments: SegmentList) -> None:
        self.segments = segments
        self._positions: dict[int, tuple[Segment, int]] = {}

    def forget_positions(self) -> None:
        self._positions.clear()

    def read(self, offset: int, visible_end: int, log_end_offset: int, max_bytes: int, *, min_one_batch: bool) -> FetchDataInfo | None:
        """Return bytes of one segment: the batches from the one with `offset` to offset `visible_end` (excluded), at most `max_bytes`.

        With `min_one_batch` the first batch is returned whole, whatever its size. Return None if the range has no batch, because compaction
        removed all of them. Raises `CorruptBatch` if the first batch has an impossible length.
        """
        found = self._locate(offset)
        if found is None:
            return None
        segment, position = found
        next_base = self.segments.next_base(segment)
        on_older_segment = next_base is not None and next_base <= visible_end
        limit = segment.size if on_older_segment else self._limit(segment, visible_end, log_end_offset)
        if position >= limit:
            return None
        if max_bytes <= 0 and not min_one_batch:  # most partitions of a full Fetch; needs no system call
            return FetchDataInfo(b"", segment, position, on_older_segment, limit - position)
        data = segment.pread(min(max_bytes, limit - position), position) if max_bytes > 0 else b""
        first_bytes = _size_of_batch(data, segment, position)
        if first_bytes > len(data):
            data = segment.pread(min(first_bytes, limit - position), position) if min_one_batch else b""
        end = position + len(data)
        if end == limit == segment.size and segment is self.segments.active:
            self._remember(log_end_offset, segment, end)
        return FetchDataInfo(data, segment, end, on_older_segment, limit - position)

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        known = self._positions.get(offset)
        if known is not None and known[1] < known[0].size:
            return known
        for segment in self.segments.from_offset(offset):
            if segment.base_offset == offset and segment.size:
                return segment, 0
            found = segment.find(offset)
            if found is not None:
                self._remember(offset, segment, found[0])
                return segment, found[0]
        return None

    def _limit(self, segment: Segment, visible_end: int, log_end_offset: int) -> int:
        """Return the byte position in `segment` at which the batches below offset `visible_end` end."""
        if visible_end >= log_end_offset:
            return segment.size
        found = self._locate(visible_end)
        return found[1] if found is not None and found[0] is segment else segment.size

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        positions = self._positions
        if len(positions) >= POSITIONS_REMEMBERED:
            del positions[next(iter(positions))]
        positions[offset] = (segment, position)

    def aborted(self, offset: int, data: FetchDataInfo, log_end_offset: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions that may have records in `data`, which was read from `offset`
        (UnifiedLog.collectAbortedTransactions)."""
        upper = data.segment.offset_index.offset_at_or_after(data.end_position)
        if upper is None:
            upper = self.segments.next_base(data.segment) or log_end_offset
        result: list[tuple[int, int]] = []
        for segment in self.segments.from_offset(data.segment.base_offset):
            found, complete = segment.txn_index.collect(offset, upper)
            result += [(producer_id, first_offset) for producer_id, first_offset, _, _ in found]
            if complete:
                break
        return result

    # --- timestamps ------------------------------------------------------------------------------------------------------------

    def search(self, timestamp: int, log_start_offset: int, check: Callable[[], None]) -> Search[TimestampOffset | None]:
        """Search for the first record from `log_start_offset` on whose timestamp is at least `timestamp`, and return it; None if there is
        none. For MAX_TIMESTAMP, return the record with the log's greatest timestamp; for any other negative value, return None. `check` is
        called after each batch that was searched, and raises an error if the log went offline meanwhile."""
        if timestamp == MAX_TIMESTAMP:
            return (yield from self._with_max_timestamp())
        from_offset = log_start_offset
        while timestamp >= 0 and (batch := self._batch_at(timestamp, from_offset)) is not None:
            header, data = batch
            if data is None:
                found = (yield _pause)()
            else:
                found = yield from _first_in(data, header, timestamp, INT64_MAX, log_start_offset)
            if found is not None:
                return found
            check()
            from_offset = header.last_offset + 1
        return None

    def _batch_at(self, timestamp: int, from_offset: int) -> tuple[BatchHeader, bytes | None] | None:
        """Return the header and the bytes of the first batch that ends at or after `from_offset` and has a record whose timestamp is at
        least `timestamp`; None if there is none. After SEARCHED_AT_ONCE_BATCHES headers without success, return the last header and None:
        the caller continues behind it in another turn of the event loop.
        """
        left = limits.SEARCHED_AT_ONCE_BATCHES
        for segment in self.segments.from_offset(from_offset):
            if segment.max_timestamp >= timestamp:
                start = segment.offset_index.lookup(max(segment.time_index.lookup(timestamp), from_offset))
                known = self._positions.get(from_offset)  # where the previous call ended
                if known is not None and known[0] is segment:
                    start = max(start, known[1])
                for position, header in segment.batches(start):
                    left -= 1
                    if header.last_offset < from_offset:
                        continue
                    if header.max_timestamp >= timestamp:
                        return header, segment.pread(header.size_bytes, position)
                    if left <= 0:
                        self._remember(header.next_offset, segment, position + header.size_bytes)
                        return header, None
        return None

    def _with_max_timestamp(self) -> Search[TimestampOffset | None]:
        """Return the record with the log's greatest timestamp, found by the segments' recorded maxima (UnifiedLog.fetchOffsetByTimestamp).

        The record may be below the log start offset, as long as its segment still exists. Return None if compaction has removed the record.
        """
        segment = max(self.segments, key=lambda segment: segment.max_timestamp)
        newest = segment.max_timestamp
        for position, header in segment.batches(segment.offset_index.lookup(segment.offset_of_max_timestamp)):
            if header.max_timestamp == newest:
                return (yield from _first_in(segment.pread(header.size_bytes, position), header, newest, newest))
        return None


def _pause() -> None:
    """Do nothing: the work of a search that only lets other requests run."""


def _size_of_batch(data: bytes, segment: Segment, position: int) -> int:
    """Return the size of the batch at `position`; `data` has its first bytes, if any. Raises `CorruptBatch` for an impossible size.

    Only the size is checked, as in Kafka's FileLogInputStream: the reader verifies the checksum.
    """
    head = data if len(data) >= LOG_OVERHEAD else segment.pread(LOG_OVERHEAD, position)
    size: int = LOG_OVERHEAD + _LENGTH.unpack_from(head, 8)[0] if len(head) >= LOG_OVERHEAD else 0
    if not SMALLEST_BATCH <= size <= segment.size - position:
        raise CorruptBatch(f"{segment.path} has a batch of {size} bytes at byte {position} of {segment.size}")
    return size


def _first_in(data: bytes, header: BatchHeader, oldest: int, newest: int, from_offset: int = 0) -> Search[TimestampOffset | None]:
    """Return the first record of the batch `data` at or after `from_offset` with a timestamp in [oldest, newest], None if there is none."""
    find = partial(_found_in, data, header, oldest, newest, from_offset)
    if header.record_count <= limits.CHECKED_AT_ONCE_RECORDS and header.size_bytes <= HEADER_BYTES + limits.CHECKED_AT_ONCE_BYTES:
        with suppress(BatchTooLarge):
            return find(limits.CHECKED_AT_ONCE_BYTES)
    return (yield partial(find, DECOMPRESSED_MAX_BYTES))()


def _found_in(  # noqa: PLR0917 # the first two are one batch
    data: bytes, header: BatchHeader, oldest: int, newest: int, from_offset: int, max_bytes: int
) -> TimestampOffset | None:
    """Return the first record of the batch `data` at or after `from_offset` with a timestamp in [oldest, newest], None if there is none.
    Raises `RecordsError` for a corrupt batch, and BatchTooLarge for one that decompresses to more than `max_bytes`.

    Compiled code searches the records, because a batch can have a million.
    """
    append_time = header.max_timestamp if header.is_log_append_time else None
    if append_time is not None:
        if not oldest <= append_time <= newest:
            return None
        oldest, newest = -INT64_MAX - 1, INT64_MAX
    section = records_section(data, header, max_bytes)
    found = walk.find_timestamp(section, header.record_count, header.base_timestamp, oldest, newest, from_offset - header.base_offset)
    if found is None:
        return None
    offset_delta, timestamp = found
    return TimestampOffset(
        timestamp if append_time is None else append_time, header.base_offset + offset_delta, header.partition_leader_epoch
    )

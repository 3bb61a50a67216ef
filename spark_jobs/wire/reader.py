"""Reads a range of offsets with Fetch, as chunks of batches and the gaps between them. `segment_reader` does the same for files.

Invariants:
- At most one Fetch response is in memory, and the fetch offset only rises, so the reading ends whatever the brokers answer.
- A batch is returned once, by the range that contains its base offset.
- Offsets that retention deletes during the reading, or that the broker cannot return, give one `Gap`, and the reading continues after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import PartitionData
from ottla.protocol.records.batch import LOG_OVERHEAD
from ottla.protocol.records.batch_walk import MORE, Headers, walk_headers
from ottla.spark_jobs.wire.cluster import EARLIEST, Cluster, WireError, error_name
from ottla.spark_jobs.wire.find import WireSegment
from ottla.spark_jobs.wire.throttle import Throttle

FETCH_BYTES: Final = 4 << 20
"""The max_bytes of a Fetch request: large enough to amortise a fast network's round trips."""
BATCH_BYTES_MAX: Final = 64 << 20
"""Maximum size of a batch that is fetched: a response must stay below the client's limit of 100 MiB."""
ROWS_MAX: Final = 1 << 30
LIMIT: Final = 1 << 40
EMPTY_MAX: Final = 20
"""The maximum number of consecutive empty Fetch responses, each half a second after the last. After that, the rest of the range is reported
as missing."""


class Chunk(NamedTuple):
    """Bytes of a Fetch response, as they are in the log: whole batches, or damaged bytes between batches."""

    data: memoryview


class Gap(NamedTuple):
    """Offsets that could not be fetched, and the reason. `legal`: retention deleted them."""

    start: int
    end: int
    reason: str
    legal: bool


class _Last(NamedTuple):
    """The batch that the reader returned last. Its fields together identify it, so that it is skipped when a broker returns it again."""

    base_offset: int
    length: int
    crc: int


@dataclass(slots=True)
class _Cut:
    """The part of a Fetch response that belongs to the range of offsets being read: bytes from `start` to before `end`. `done`: the range
    ends in this response."""

    start: int
    end: int
    done: bool


class RangeReader:
    """Reads one range of a partition's offsets with Fetch requests. A reader can be used only once."""

    def __init__(self, segment: WireSegment, cluster: Cluster, throttle: Throttle | None = None, *, fetch_bytes: int = FETCH_BYTES) -> None:
        self._segment = segment
        self._partition = (segment.topic, segment.partition)
        self._cluster = cluster
        self._throttle = throttle or Throttle(segment.address.bytes_per_second)
        self._fetch_bytes = fetch_bytes
        self._bytes_wanted = fetch_bytes
        self._last: _Last | None = None
        self.next_offset = segment.fetch_from
        """The offset of the next Fetch request."""

    def chunks(self) -> Iterator[Chunk | Gap]:
        """Yield the bytes of the range's batches, and a `Gap` for offsets that could not be fetched, in the order of offsets. Raises
        WireError when the partition's leader does not answer, or this user may not read the topic."""
        empty = 0
        done = False
        while not done and self.next_offset < self._segment.fetch_end and empty < EMPTY_MAX:
            self._throttle.wait()
            answer = self._cluster.fetch(self._partition, self.next_offset, self._bytes_wanted)
            data = memoryview(answer.records or b"")
            self._throttle.took(len(data))
            if answer.error_code:
                yield self._refused(answer)
            elif not data:
                empty += 1
                done = answer.high_watermark >= self._segment.fetch_end  # compaction removed the records up to the range's end
            else:
                empty = 0
                chunk, done = self._batches(data)
                if chunk is not None:
                    yield chunk
        if empty >= EMPTY_MAX and not done:
            yield Gap(self.next_offset, self._segment.fetch_end, "the log ends sooner than when it was listed", False)

    def _batches(self, data: memoryview) -> tuple[Chunk | Gap | None, bool]:
        """Return the bytes of a Fetch response that belong to the range, and whether the range ends in this response.

        Instead of the bytes, return None if the response has no bytes, or only the beginning of a batch, which the next request fetches
        whole. Return a `Gap` if no batch can be read at the next offset.
        """
        head = walk_headers(data, 0, LIMIT, ROWS_MAX, BATCH_BYTES_MAX, True)
        if not head.positions and head.stop == MORE and self._bytes_wanted < BATCH_BYTES_MAX:
            self._bytes_wanted = min(BATCH_BYTES_MAX, max(2 * self._bytes_wanted, head.next_length + LOG_OVERHEAD))
            return None, False
        self._bytes_wanted = self._fetch_bytes
        cut = self._cut(head)
        if not cut.done and head.stop != MORE:
            cut.end = len(data)
        before = self.next_offset
        self._advance(head)
        if not cut.done and self.next_offset == before:
            return self._skip("no batch can be made out", data[cut.start :]), False
        return (Chunk(data[cut.start : cut.end]) if cut.end > cut.start else None), cut.done

    def _cut(self, head: Headers) -> _Cut:
        base, lengths = np.asarray(head.base_offsets, np.int64), np.asarray(head.batch_lengths, np.int64)
        if not len(base):
            return _Cut(0, 0, False)
        ends = np.asarray(head.positions, np.int64) + lengths + LOG_OVERHEAD
        wanted = base >= self._segment.lowest
        if self._last is not None:
            given = (base == self._last.base_offset) & (lengths == self._last.length) & (np.asarray(head.crcs, np.int64) == self._last.crc)
            wanted[: 1 + int(np.flatnonzero(given)[-1]) if given.any() else 0] = False
        else:
            wanted |= np.arange(len(base)) > 0  # only the first batch of the first response may belong to the previous range
        inside = wanted & (base < self._segment.fetch_end)
        if not inside.any():
            return _Cut(head.next_position, head.next_position, bool((base >= self._segment.fetch_end).any()))
        first, last = int(np.flatnonzero(inside)[0]), int(np.flatnonzero(inside)[-1])
        self._last = _Last(int(base[last]), int(lengths[last]), int(head.crcs[last]))
        return _Cut(int(head.positions[first]), int(ends[last]), last < len(base) - 1)

    def _advance(self, head: Headers) -> None:
        """Set `next_offset` to the offset after the highest offset of the range's batches. Batches with a base offset at or above the
        range's end are ignored, because a damaged base offset may be arbitrarily high."""
        base = np.asarray(head.base_offsets, np.int64)
        after = (base + np.asarray(head.last_offset_deltas, np.int64) + 1)[base < self._segment.fetch_end]
        self.next_offset = max([self.next_offset, *after[-1:].tolist(), *([int(after.max())] if len(after) else [])])

    def _refused(self, answer: PartitionData) -> Gap:
        """Handle an error response. If retention deleted the next offsets, continue at the log's start; otherwise skip offsets until the
        broker returns a batch. Set `next_offset` accordingly, and return the skipped offsets as a `Gap`. Raises WireError if this user may
        not read the topic, which says nothing about the log."""
        if answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            where = f"{self._segment.topic}-{self._segment.partition}"
            raise WireError(f"{where}: cannot be fetched at offset {self.next_offset}: {error_name(answer.error_code)}")
        if answer.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._skip(f"the broker answers {error_name(answer.error_code)}")
        starts, _ = self._cluster.offsets([self._partition], EARLIEST)
        start, before, end = starts.get(self._partition, 0), self.next_offset, self._segment.fetch_end
        if start <= before:
            self.next_offset = end
            return Gap(before, end, "the log ends sooner than when it was listed", False)
        self.next_offset = min(start, end)
        return Gap(before, self.next_offset, "retention removed them while they were read", True)

    def _skip(self, reason: str, data: memoryview | None = None) -> Gap:
        """Skip offsets that the broker cannot return: fetch at later offsets, in steps that double, until the broker returns another batch.
        Set `next_offset` to the offset found, and return the skipped offsets as a `Gap`."""
        before, step = self.next_offset, 1
        while before + step < self._segment.fetch_end:
            answer = self._cluster.fetch(self._partition, before + step, self._fetch_bytes)
            found = memoryview(answer.records or b"")
            if not answer.error_code and found and found[: len(data or b"")] != data:
                head = walk_headers(found, 0, LIMIT, 1, BATCH_BYTES_MAX, True)
                if head.positions:
                    break
            step *= 2
        self.next_offset = min(before + step, self._segment.fetch_end)
        return Gap(before, self.next_offset, reason, False)

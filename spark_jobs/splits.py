"""Splits segments into parts of even size that tasks read independently.

Invariants:
- A part begins at the first byte of a batch.
- The sparse `.index` gives candidate positions. A position is used only if a batch with a correct CRC and with the entry's offset is there.
- If the index is missing or one of its positions is wrong, the batch headers are scanned instead, up to the first damage; everything after
  the damage is one part.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.protocol.records.batch import HEADER_BYTES, MAGIC_V2, crc_ok, read_header
from ottla.spark_jobs.filesystem import RandomAccess, place
from ottla.spark_jobs.log_directory import Segment
from ottla.spark_jobs.paths import is_cluster
from ottla.spark_jobs.segment_reader import BATCH_BYTES_MAX, Part, Run, file_runs, whole
from ottla.spark_jobs.tables.filters import Filters

TASK_BYTES_MAX: Final = 64 << 20
TASK_BYTES_MIN: Final = 1 << 20
TASKS_WANTED: Final = 16
"""The number of tasks that keeps a laptop's cores evenly busy; larger logs get more tasks, of TASK_BYTES_MAX bytes each."""
FILES_MAX: Final = 256
"""Maximum number of segment parts in a task, so that thousands of empty partitions are also distributed over tasks."""

_ENTRY: Final = struct.Struct(">ii")
_INDEX_BYTES_MAX: Final = 64 << 20
"""Maximum size of an index that is read: that of a segment of 34 GB with one entry per 4 KiB (Kafka's index.interval.bytes)."""


@dataclass(frozen=True, slots=True)
class OffsetPosition:
    """The byte position of the start of a batch, and the batch's base offset (Kafka's OffsetPosition). All offsets before the position are
    lower."""

    position: int
    base_offset: int


def task_bytes(segments: Sequence[Segment]) -> int:
    """Return the number of bytes that each task should read if the segments are divided among tasks."""
    return min(TASK_BYTES_MAX, max(TASK_BYTES_MIN, sum(s.size_bytes for s in segments) // TASKS_WANTED))


def parts(segment: Segment, filters: Filters, target: int) -> list[Part]:
    """Return the parts of a segment that contain offsets which `filters` select, each about `target` bytes long, or longer where the known
    batch positions are farther apart. Raises OSError if the segment or its index cannot be read."""
    if not segment.size_bytes or not filters.wants_segment(segment):
        return []
    if is_cluster(segment.log_dir):
        from ottla.spark_jobs.wire.find import narrowed  # noqa: PLC0415 # only if logs are read from brokers

        return [whole(narrowed(segment, filters.start_offset, filters.end_offset))]
    if segment.size_bytes <= target + target // 2 and not (filters.has_offsets and segment.size_bytes > TASK_BYTES_MIN):
        return [whole(segment)]
    positions = _positions(segment, min(target, TASK_BYTES_MIN) if filters.has_offsets else target)
    positions = _within(positions, filters)
    first = positions[0].position if positions and positions[0].base_offset <= filters.start_offset else 0
    inner = [each for each in positions if each.position > first and each.base_offset < filters.end_offset]
    beyond = [each.position for each in positions if each.base_offset >= filters.end_offset]
    end = beyond[0] if beyond else segment.size_bytes
    cuts = [first]
    for each in inner:
        if each.position - cuts[-1] >= target and each.position < end:
            cuts.append(each.position)
    return [Part(segment, start, stop) for start, stop in zip(cuts, [*cuts[1:], end], strict=True)]


def pack(found: Sequence[Part], target: int) -> list[list[Part]]:
    """Distribute parts of segments over tasks of about `target` bytes each; return the tasks' lists of parts, the largest first."""
    tasks: list[list[Part]] = []
    bytes_left = 0
    for part in sorted(found, key=lambda part: part.end - part.start, reverse=True):
        size = part.end - part.start
        if size > bytes_left or len(tasks[-1]) >= FILES_MAX:
            tasks.append([])
            bytes_left = max(target, size)
        tasks[-1].append(part)
        bytes_left -= size
    return tasks


def _within(positions: list[OffsetPosition], filters: Filters) -> list[OffsetPosition]:
    """Drop the positions before the one at which reading must begin: the last position with a base offset at or below
    `filters.start_offset`."""
    first = bisect_right(positions, filters.start_offset, key=lambda each: each.base_offset) - 1
    return positions[max(first, 0) :]


def _positions(segment: Segment, apart: int) -> list[OffsetPosition]:
    """Return positions where batches begin, about `apart` bytes from each other, with rising offsets."""
    found = _from_index(segment, apart)
    if found is None:
        found = list(_from_headers(segment, apart))
    return found


def _from_index(segment: Segment, apart: int) -> list[OffsetPosition] | None:
    """Return positions from the offset index, each verified in the log. None if the index is missing, ends far before the log's end, or
    contains a wrong position."""
    if segment.index_bytes < _ENTRY.size:
        return None
    where = place(segment.log_dir)
    try:
        data = where.read(segment.path.removesuffix(".log") + ".index", _INDEX_BYTES_MAX)
    except OSError:  # the index was deleted since the listing, or cannot be read
        return None
    positions: list[OffsetPosition] = []
    last = (-1, 0)
    with where.open(segment.path) as log:
        for offset, position in _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]):
            if (offset, position) == (0, 0):
                break
            if offset <= last[0] or position <= last[1] or position >= segment.size_bytes:
                return None
            if position - (positions[-1].position if positions else 0) >= apart:
                found = _position_at(log, segment, position, segment.base_offset + offset)
                if found is None or (positions and found.base_offset <= positions[-1].base_offset):
                    return None
                positions.append(found)
            last = (offset, position)
    return positions if segment.size_bytes - last[1] <= max(apart, TASK_BYTES_MAX) else None


def _position_at(log: RandomAccess, segment: Segment, position: int, last_offset: int) -> OffsetPosition | None:
    """Return `position` with the base offset of the batch that begins there, if the batch's CRC is correct and its last offset is
    `last_offset`; otherwise None."""
    head = log.read_at(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES or head[16] != MAGIC_V2:
        return None
    header = read_header(head)
    fits = HEADER_BYTES <= header.size_bytes <= min(segment.size_bytes - position, BATCH_BYTES_MAX)
    if not fits or header.last_offset != last_offset or not crc_ok(log.read_at(position, header.size_bytes), header):
        return None
    return OffsetPosition(position, header.base_offset)


def _from_headers(segment: Segment, apart: int) -> Iterator[OffsetPosition]:
    """Yield positions of batches, about `apart` bytes from each other, from a scan of the segment's batch headers up to the first
    damage."""
    at, last_offset = 0, -1
    for run in file_runs(whole(segment), bodies=False):
        if not isinstance(run, Run):
            return
        head = run.headers
        for position, base, delta in zip(head.positions, head.base_offsets, head.last_offset_deltas, strict=True):
            if run.position + position - at >= apart and base > last_offset:
                at = run.position + position
                yield OffsetPosition(at, base)
            last_offset = max(last_offset, base + delta)

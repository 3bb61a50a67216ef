"""`kafka_log` as a stream: each micro-batch reads the bytes that were appended to logs since the previous one, also in new segments and new
partitions.

Invariants:
- An offset of the stream names, for each partition, a segment and the byte position in it where reading continues. The position is always
  the first byte of a batch, so a batch that a broker is still writing is left for the next micro-batch.
- Bytes that are not a batch are reported only when a valid batch or a newer segment follows them.
- A segment that retention has deleted since the listing is skipped.
- A log whose read bytes have changed (a follower truncated it, or compaction rewrote a segment before it was read to its end) raises
  OSError: the position may be in the middle of a batch, and batches before it may be new.
- The size of a micro-batch is limited in bytes, also with Trigger.AvailableNow, which reads up to the ends that the logs had at its start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from ottla.spark_jobs.log_directory import Segment
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.segment_reader import Part, Run, file_runs
from ottla.spark_jobs.spark_tasks import TaskPartition, rows_of
from ottla.spark_jobs.splits import pack, task_bytes
from ottla.spark_jobs.tables import Filters

BYTES_MAX: Final = 1 << 30
"""Default size of a micro-batch in bytes, if the option max_bytes_per_trigger is not set."""

Offset = dict[str, list[int]]
"""An offset of the stream. It maps each `<log dir>/<topic>-<partition>` to [base offset of a segment, byte position in the segment, size of
the batch that ends there, its CRC]. Size and CRC are 0 if a closed segment was read to its end."""


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The data source's stream reader: finds appended bytes on the driver and reads them on the executors."""

    def __init__(
        self, paths: list[str], level: str, filters: Filters, schema: pa.Schema, *, unread: frozenset[str], max_bytes: int = BYTES_MAX
    ) -> None:
        self._paths = paths
        self._level = level
        self._filters = filters
        self._schema = schema
        self._unread = unread
        self._max_bytes = max_bytes
        self._at_start: dict[str, list[Segment]] | None = None
        """With Trigger.AvailableNow, the logs as they were listed at the query's start; only these are read. Otherwise None."""

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit the stream to the ends that the logs have now (Trigger.AvailableNow)."""
        self._at_start = self._logs()

    def initialOffset(self) -> Offset:
        """Return the stream's first offset. It names no partition, so every log is read from its start, also one that is created later."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a read limit of `max_bytes` bytes per micro-batch."""
        return ReadMaxBytes(self._max_bytes)

    def latestOffset(self, start: Mapping[str, Sequence[int]], limit: ReadLimit) -> Offset:
        """Return the end of the next micro-batch: at most `limit` bytes beyond `start`, but at least one batch if there is one."""
        left = 1 << 62 if isinstance(limit, ReadAllAvailable) else getattr(limit, "max_bytes", self._max_bytes)
        end: Offset = {key: list(place) for key, place in start.items()}
        for key, segments in sorted(self._available().items()):
            for segment, position in _from(segments, start.get(key)):
                if left <= 0:
                    break
                reached, *last_batch = _end_of_batches(segment, position, left)
                if reached > position or segment.base_offset != end.get(key, [-1])[0]:
                    end[key] = [segment.base_offset, reached, *last_batch]
                left -= reached - position
                if reached < segment.size_bytes:
                    break
        return end

    def partitions(self, start: Mapping[str, Sequence[int]], end: Mapping[str, Sequence[int]]) -> list[InputPartition]:
        """Return tasks of even size that together read the bytes between two offsets of the stream."""
        parts = []
        for key, segments in self._logs().items():
            if key not in end:
                continue
            last, stop = end[key][:2]
            for segment, position in _from(segments, start.get(key)):
                if segment.base_offset <= last:
                    until = stop if segment.base_offset == last else segment.size_bytes
                    parts += [Part(segment, position, until)] if until > position else []
        return [TaskPartition(list(task), self._filters) for task in pack(parts, task_bytes([part.segment for part in parts]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one task as Arrow record batches."""
        assert isinstance(partition, TaskPartition)
        return rows_of(self._level, partition, self._schema, self._unread)

    def _logs(self) -> dict[str, list[Segment]]:
        """List the logs now, and return the segments of each partition in log order, by the name that the partition has in an `Offset`."""
        found: dict[str, list[Segment]] = {}
        for path in self._paths:
            for segment in find_logs(path, self._filters.topics).segments:
                if self._filters.wants(segment):
                    found.setdefault(f"{path}/{segment.topic}-{segment.partition}", []).append(segment)
        return found

    def _available(self) -> dict[str, list[Segment]]:
        """Return the segments that may be read now. With Trigger.AvailableNow, these are the segments that were listed at the query's
        start, without those that retention has deleted since."""
        if self._at_start is None:
            return self._logs()
        existing = {segment.path for segments in self._logs().values() for segment in segments}
        return {key: [segment for segment in segments if segment.path in existing] for key, segments in self._at_start.items()}


def _from(segments: Sequence[Segment], place: Sequence[int] | None) -> Iterator[tuple[Segment, int]]:
    """Yield each segment from `place` on, with the byte position to read from. `place`: where the log was read to (see `Offset`); None is
    the beginning of the log. Raises OSError if the log's bytes before that have changed."""
    base, position = (place or (-1, 0))[:2]
    if place is not None and len(place) > 2 and not _is_unchanged(segments, place):
        raise OSError(
            f"{segments[0].directory} has other bytes than those that were read, up to byte {position} of segment {base}: it was "
            "truncated, or compaction rewrote it. Begin anew, with an empty checkpoint"
        )
    for segment in segments:
        if segment.base_offset >= base:
            yield segment, min(position, segment.size_bytes) if segment.base_offset == base else 0


def _is_unchanged(segments: Sequence[Segment], place: Sequence[int]) -> bool:
    """Return whether the log still has the batch that ends at `place`. The file is opened only if bytes behind the batch would be read."""
    base, position, size, crc = place
    segment = next((each for each in segments if each.base_offset == base), None)
    if segment is None:  # retention removes segments from the log's start; compaction may merge one that was read to its end
        return size == 0 or not segments or segments[0].base_offset > base
    if size == 0:
        return position == 0 or segment.size_bytes <= position
    if segment.size_bytes <= position:
        return segment.size_bytes == position
    last = next(file_runs(Part(segment, position - size, position), bodies=False), None)
    if not isinstance(last, Run):
        return last is not None and last.torn and last.size_bytes == 0  # retention deleted it since the listing
    return (last.rows, last.headers.batch_lengths[0] + 12, last.headers.crcs[0]) == (1, size, crc)


def _end_of_batches(segment: Segment, position: int, max_bytes: int) -> tuple[int, int, int]:
    """Return the byte position after the last complete batch within about `max_bytes` bytes of `position`, and this batch's size and CRC;
    (`position`, 0, 0) if the last segment has no complete batch there. For a closed segment that is read to its end, size and CRC are 0.
    Raises OSError if the segment cannot be read."""
    if not segment.is_last and segment.size_bytes - position <= max_bytes:
        return segment.size_bytes, 0, 0
    reached = position, 0, 0
    for item in file_runs(Part(segment, position, segment.size_bytes), bodies=False):
        if not isinstance(item, Run):
            continue
        for at, length, crc in zip(item.headers.positions, item.headers.batch_lengths, item.headers.crcs, strict=True):
            reached = item.position + at + length + 12, length + 12, crc
            if reached[0] - position >= max_bytes:
                return reached
    return reached if segment.is_last else (segment.size_bytes, 0, 0)

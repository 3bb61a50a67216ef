"""`kafka_log` as a stream: what is appended to logs since the last micro-batch, new segments and new partitions included.

Rules that hold here: progress is, for each partition, the segment and the byte in it where reading goes on; it always names a batch's first
byte, so a batch that a broker is just writing is left for the next time, and bytes that are no batch are told only once a right batch
follows them or a newer segment does. A segment that retention has removed meanwhile is passed over. A micro-batch is bounded in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes

from ottla.spark_jobs.log_directory import Segment
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.segment_reader import Part, Run, file_runs
from ottla.spark_jobs.spark_tasks import TaskPartition, rows_of
from ottla.spark_jobs.splits import pack, task_bytes
from ottla.spark_jobs.tables import Filters

BYTES_MAX: Final = 1 << 30
"""A micro-batch's size unless the option max_bytes_per_trigger says otherwise."""

Offset = dict[str, list[int]]
"""`<log dir>/<topic>-<partition>` to [base offset of the segment, position in it]."""


class KafkaLogStreamReader(DataSourceStreamReader):
    """Finds what is new on the driver, reads it on the executors."""

    def __init__(
        self, paths: list[str], level: str, filters: Filters, schema: pa.Schema, *, unread: frozenset[str], max_bytes: int = BYTES_MAX
    ) -> None:
        self._paths = paths
        self._level = level
        self._filters = filters
        self._schema = schema
        self._unread = unread
        self._max_bytes = max_bytes

    def initialOffset(self) -> Offset:
        """The beginning of every log, whenever it appears."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Bytes a micro-batch."""
        return ReadMaxBytes(self._max_bytes)

    def latestOffset(self, start: Mapping[str, Sequence[int]], limit: ReadLimit) -> Offset:
        """How far the logs can be read now, at most `limit` bytes beyond `start` (and at least one batch, where there is one)."""
        left = 1 << 62 if isinstance(limit, ReadAllAvailable) else getattr(limit, "max_bytes", self._max_bytes)
        end: Offset = {key: list(place) for key, place in start.items()}
        for key, segments in sorted(_logs(self._paths, self._filters).items()):
            for segment, position in _from(segments, start.get(key)):
                if left <= 0:
                    break
                reached = _end_of_batches(segment, position, left)
                if reached > position or segment.base_offset != end.get(key, [-1])[0]:
                    end[key] = [segment.base_offset, reached]
                left -= reached - position
                if reached < segment.size_bytes:
                    break
        return end

    def partitions(self, start: Mapping[str, Sequence[int]], end: Mapping[str, Sequence[int]]) -> list[InputPartition]:
        """What lies between two offsets, in tasks of even size."""
        parts = []
        for key, segments in _logs(self._paths, self._filters).items():
            if key not in end:
                continue
            last, stop = end[key]
            for segment, position in _from(segments, start.get(key)):
                if segment.base_offset <= last:
                    until = stop if segment.base_offset == last else segment.size_bytes
                    parts += [Part(segment, position, until)] if until > position else []
        return [TaskPartition(list(task), self._filters) for task in pack(parts, task_bytes([part.segment for part in parts]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task as Arrow record batches."""
        assert isinstance(partition, TaskPartition)
        return rows_of(self._level, partition, self._schema, self._unread)


def _logs(paths: Sequence[str], filters: Filters) -> dict[str, list[Segment]]:
    """The segments of each partition, in order."""
    found: dict[str, list[Segment]] = {}
    for path in paths:
        for segment in find_logs(path, filters.topics).segments:
            if filters.wants(segment):
                found.setdefault(f"{path}/{segment.topic}-{segment.partition}", []).append(segment)
    return found


def _from(segments: Sequence[Segment], place: Sequence[int] | None) -> Iterator[tuple[Segment, int]]:
    """The segments from a place on, with where to begin in each."""
    base, position = place or (-1, 0)
    for segment in segments:
        if segment.base_offset >= base:
            yield segment, min(position, segment.size_bytes) if segment.base_offset == base else 0


def _end_of_batches(segment: Segment, position: int, most: int) -> int:
    """The end of the last batch that can be judged, about `most` bytes from `position`. Raises OSError."""
    if not segment.is_last and segment.size_bytes - position <= most:
        return segment.size_bytes
    reached = position
    for item in file_runs(Part(segment, position, segment.size_bytes), bodies=False):
        if not isinstance(item, Run):
            continue
        for at, length in zip(item.headers.positions, item.headers.batch_lengths, strict=True):
            reached = item.position + at + length + 12
            if reached - position >= most:
                return reached
    return reached if segment.is_last else segment.size_bytes

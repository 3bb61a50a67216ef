"""Filters for the rows of a level (a kind of row, such as `batches`). A reader uses them to skip files, parts of files, batches and
rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.spark_jobs.log_directory import LogFile, Segment

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on rows; a row must meet all of them. An empty set means any. Ranges are half-open. The offset range applies to the
    offsets that a batch occupies or a record has. The time range, in ms, applies to the row's timestamp (of a batch: its largest). Rows
    about damaged bytes have neither offsets nor timestamps and are always included. A segment whose file name puts it outside the offset
    range is not opened."""

    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    start_offset: int = 0
    end_offset: int = INT64_MAX
    start_timestamp: int = INT64_MIN
    end_timestamp: int = INT64_MAX

    def __post_init__(self) -> None:
        given: object = self.topics
        if isinstance(given, str):
            raise TypeError(f"topics are a set, also where it is one: frozenset({{{self.topics!r}}})")

    @property
    def has_times(self) -> bool:
        """Whether the filters limit the timestamps of rows."""
        return self.start_timestamp > INT64_MIN or self.end_timestamp < INT64_MAX

    @property
    def has_offsets(self) -> bool:
        """Whether the filters limit the offsets of rows."""
        return self.start_offset > 0 or self.end_offset < INT64_MAX

    def wants(self, file: LogFile) -> bool:
        """Return whether the filters include the file's topic and partition."""
        return (not self.topics or file.topic in self.topics) and (not self.partitions or file.partition in self.partitions)

    def wants_segment(self, segment: Segment) -> bool:
        """Return whether the filters include the segment's topic and partition, and the segment can hold an offset in their offset
        range."""
        before = segment.next_base_offset is not None and segment.next_base_offset <= self.start_offset
        return self.wants(segment) and not before and segment.base_offset < self.end_offset

"""Parameters and results of a log: small values without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

LATEST: Final = -1
"""This and the next constants are ListOffsets' special timestamps."""
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


class Isolation(Enum):
    """The bound of a reader: the high watermark, the last stable offset, or (for replicas) the log's end."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2


@dataclass(slots=True)
class AppendInfo:
    """The result of an append. A duplicate wrote nothing: its offsets and time are those of the batch that it repeats.

    `log_append_time_ms` is -1 if the batch keeps its producer's time. An append without batches has `first_offset` and `last_offset` -1.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class ReadResult(NamedTuple):
    """Stored batches, the last one possibly incomplete, with the log's offsets at the time of the read.

    `aborted` has (producer id, first offset) for READ_COMMITTED and is empty otherwise. `on_older_segment`: later segments have more for
    this reader, however few bytes this read returned.
    """

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    on_older_segment: bool = False


class TimestampOffset(NamedTuple):
    """A result of ListOffsets; -1 in a field means none."""

    timestamp: int
    offset: int
    leader_epoch: int


NOT_FOUND = TimestampOffset(-1, -1, -1)

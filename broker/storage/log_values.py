"""What a log takes and gives: small values, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

LATEST: Final = -1
"""This and those below ask ListOffsets for a special offset in place of a timestamp."""
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


class Isolation(Enum):
    """How far a reader may see: the high watermark, the last stable offset, or (a replica) the end of the log."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2


@dataclass(slots=True)
class AppendInfo:
    """What an append did. A duplicate wrote nothing: its offsets and time are those of the batch that it repeats.

    `log_append_time_ms` is -1 where the batch keeps its producer's time. An append of no batch has `first_offset` and `last_offset` -1.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class ReadResult(NamedTuple):
    """Stored batches as they are, the last one possibly cut; offsets as they were at the read.

    `aborted` has (producer id, first offset) for READ_COMMITTED and is empty otherwise. `on_older_segment`: there is more for this reader
    in later segments, however few bytes this one had left.
    """

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    on_older_segment: bool = False


class TimestampOffset(NamedTuple):
    """An answer of ListOffsets; -1 is "none" in each field."""

    timestamp: int
    offset: int
    leader_epoch: int


NOT_FOUND = TimestampOffset(-1, -1, -1)

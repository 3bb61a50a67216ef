"""The parameters and results of a log's methods, as small values without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

# The special timestamps of ListOffsets requests (Kafka's ListOffsetsRequest).
LATEST: Final = -1
"""The special timestamp of a ListOffsets request for the end of the log, as far as the reader's isolation lets it read."""
EARLIEST: Final = -2
"""The special timestamp of a ListOffsets request for the log start offset."""
MAX_TIMESTAMP: Final = -3
"""The special timestamp of a ListOffsets request for the record with the greatest timestamp (KIP-734)."""
EARLIEST_LOCAL: Final = -4
"""The special timestamp of a ListOffsets request for the first offset on the broker's disk (KIP-405); here the log start offset."""
LATEST_TIERED: Final = -5
"""The special timestamp of a ListOffsets request for the last offset in remote storage (KIP-1005)."""
EARLIEST_PENDING_UPLOAD: Final = -6
"""The special timestamp of a ListOffsets request for the first offset that is not in remote storage yet (KIP-1023)."""


class Isolation(Enum):
    """A reader's isolation, which decides up to which offset it sees records: the high watermark, the last stable offset or, for followers,
    the log end."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2


@dataclass(slots=True)
class AppendInfo:
    """The result of an append. For a duplicate nothing was written, and the offsets and the time are those of the batch that was written
    before.

    `log_append_time_ms` is -1 if the batch has CreateTime. `first_offset` and `last_offset` are -1 if there was no batch to append.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class ReadResult(NamedTuple):
    """The result of a read: batches, the last one possibly incomplete, and the log's offsets at that time.

    For READ_COMMITTED, `aborted` has (producer id, first offset) of the aborted transactions; otherwise it is empty. If `on_older_segment`
    is true, later segments have more records for this reader, so its fetch must not wait for fetch.min.bytes. A read of any size would find
    at most `available_bytes`.
    """

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    on_older_segment: bool = False
    available_bytes: int = 0


class TimestampOffset(NamedTuple):
    """A result of ListOffsets: a timestamp, an offset and a leader epoch; -1 in a field means that there is none."""

    timestamp: int
    offset: int
    leader_epoch: int


NOT_FOUND = TimestampOffset(-1, -1, -1)

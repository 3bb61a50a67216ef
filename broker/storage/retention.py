"""Decides which segments retention removes: from the oldest, up to the first that must be kept (UnifiedLog.deleteOldSegments)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.segment import Segment


def deletable(
    segments: Sequence[Segment], *, config: LogConfig, log_start_offset: int, high_watermark: int, log_end_offset: int, now_ms: int
) -> list[Segment]:
    """Return the oldest segments that retention.ms, retention.bytes or the log start offset no longer keep.

    If the result has every segment, the caller must roll the log first. The result never has a segment with records at or above the high
    watermark, nor an empty active segment; the log start offset does not remove an active segment, because no other follows it. A segment
    without timestamps has the age of its file's modification time. Raises `OSError`.
    """
    ends = [s.base_offset for s in segments[1:]] + [log_end_offset]
    eligible = [(s, end) for s, end in zip(segments, ends, strict=True) if end <= high_watermark and (s is not segments[-1] or s.size)]
    breached = list(takewhile(lambda item: item[1] <= log_start_offset and item[0] is not segments[-1], eligible))
    if not config.deletes:
        return [s for s, _ in breached]
    rest = [s for s, _ in eligible[len(breached) :]]
    taken = [s for s, _ in breached]
    if config.retention_bytes >= 0:
        total = sum(s.size for s in segments) - sum(s.size for s in taken)
        taken += list(takewhile(_fits(total - config.retention_bytes), rest))
    if config.retention_ms >= 0:
        rest = [s for s, _ in eligible[len(taken) :]]
        taken += list(takewhile(lambda s: now_ms - s.largest_timestamp() > config.retention_ms, rest))
    return taken


def _fits(surplus: int) -> Callable[[Segment], bool]:
    left = surplus

    def fits(segment: Segment) -> bool:
        nonlocal left
        if left < segment.size:
            return False
        left -= segment.size
        return True

    return fits

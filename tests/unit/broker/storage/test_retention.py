"""The choice of segments to delete. Their deletion is tested in test_partition_log.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.retention import deletable
from ottla.broker.storage.segment import Segment
from tests.support.logs import LogHarness, batch

SIZE = len(batch())
NOTHING = frozenset[str]()


@pytest.fixture
def segments(tmp_path: Path) -> list[Segment]:
    """Return segments with one batch each, with the timestamps 100, 300, 200, 400."""
    harness = LogHarness(tmp_path / "topic-0", LogConfig(segment_bytes=SIZE, segment_ms=10**6))
    for timestamp in (100, 300, 200, 400):
        harness.append(batch(timestamp=timestamp))
    return list(harness.log.segments)


def taken(segments: list[Segment], config: LogConfig, *, start: int = 0, high_watermark: int = 4, now_ms: int = 0) -> list[int]:
    found = deletable(segments, config=config, log_start_offset=start, high_watermark=high_watermark, log_end_offset=4, now_ms=now_ms)
    return [s.base_offset for s in found]


@pytest.mark.parametrize(("limit", "gone"), [(4 * SIZE, 0), (4 * SIZE - 1, 0), (3 * SIZE, 1), (SIZE + 1, 2), (SIZE, 3), (0, 4), (-1, 0)])
def test_retention_by_size_deletes_whole_segments_and_keeps_retention_bytes(segments: list[Segment], limit: int, gone: int) -> None:
    assert taken(segments, LogConfig(retention_bytes=limit, retention_ms=-1)) == list(range(gone))


@pytest.mark.parametrize(("now_ms", "gone"), [(1100, 0), (1101, 1), (1201, 1), (1300, 1), (1301, 3), (1401, 4)])
def test_retention_by_time_stops_at_the_first_kept_segment(segments: list[Segment], now_ms: int, gone: int) -> None:
    assert taken(segments, LogConfig(retention_ms=1000), now_ms=now_ms) == list(range(gone))


def test_segments_below_the_log_start_are_deleted_under_every_policy(segments: list[Segment]) -> None:
    for policy in (NOTHING, frozenset({"compact"}), frozenset({"delete"})):
        assert taken(segments, LogConfig(cleanup_policy=policy, retention_ms=-1), start=2) == [0, 1]


def test_the_active_segment_is_kept_when_all_its_records_are_below_the_log_start(segments: list[Segment]) -> None:
    assert taken(segments, LogConfig(retention_ms=-1), start=4) == [0, 1, 2]


def test_retention_by_size_counts_deletions_by_log_start(segments: list[Segment]) -> None:
    assert taken(segments, LogConfig(retention_bytes=2 * SIZE, retention_ms=-1), start=2) == [0, 1]
    assert taken(segments, LogConfig(retention_bytes=SIZE, retention_ms=-1), start=2) == [0, 1, 2]


def test_nothing_past_the_high_watermark_is_deleted(segments: list[Segment]) -> None:
    assert taken(segments, LogConfig(retention_bytes=0), high_watermark=2, now_ms=10**9) == [0, 1]


def test_without_the_delete_policy_size_and_time_are_ignored(segments: list[Segment]) -> None:
    assert taken(segments, LogConfig(cleanup_policy=NOTHING, retention_bytes=0, retention_ms=1), now_ms=10**9) == []

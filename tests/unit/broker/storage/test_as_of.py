"""Data directories that are cut at an earlier point in time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.storage.as_of import AtOffset, truncate_at_moment
from ottla.broker.storage.fork import ForkRefused, fork
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.partition_log import Origin, PartitionLog
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.logs import NOW_MS, TOPIC_ID, marker

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)


def opened(path: Path) -> LogDir:
    return LogDir.open(path, BrokerSettings(transaction_partition_verification_enable=False), NOW_MS)


def append(log: PartitionLog, data: bytes) -> None:
    log.append(data, origin=Origin.COORDINATOR, leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


def timed(sequence: int, *times_ms: int) -> bytes:
    """Return a batch of producer 7 whose records have these timestamps."""
    return build_batch(
        [SimpleRecord(b"", bytes(60), time_ms) for time_ms in times_ms], producer_id=7, producer_epoch=0, base_sequence=sequence
    )


def filled(path: Path, batches: list[list[int]]) -> None:
    """Write one partition; each batch is given by the timestamps of its records."""
    log_dir, sequence = opened(path), 0
    log = log_dir.create_log("t", 0, TOPIC_ID, SMALL)
    for times in batches:
        append(log, timed(sequence, *times))
        sequence += len(times)
    log_dir.close()


def times_in(path: Path) -> list[int]:
    """Return the max timestamp of each batch in the directory, after checking that it was shut down cleanly."""
    log_dir = opened(path)
    assert log_dir.was_clean
    assert not log_dir.findings
    log = log_dir.logs["t", 0]
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records
        headers = [header for _, header in split_batches(memoryview(data))]
        found += [header.max_timestamp for header in headers]
        offset = headers[-1].next_offset
    entries = list(log.producers())
    assert [entry.last_sequence for entry in entries] == ([log.log_end_offset - 1] if found else [])
    log_dir.close()
    return found


@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=3), min_size=1, max_size=40),
    moment=st.integers(-1, 21),
)
def test_as_of_a_time_keeps_batches_before_the_first_later_one(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], moment: int
) -> None:
    path = tmp_path_factory.mktemp("as-of")
    filled(path / "original", [[NOW_MS - 100 + time for time in times] for times in batches])
    newest = [NOW_MS - 100 + max(times) for times in batches]
    fork(path / "original", path / "cut")
    assert truncate_at_moment(path / "cut", NOW_MS - 100 + moment, NOW_MS) == NOW_MS - 100 + moment
    later = next((number for number, time in enumerate(newest) if time > NOW_MS - 100 + moment), len(newest))
    assert times_in(path / "cut") == newest[:later]
    assert times_in(path / "original") == newest


def test_later_marker_is_truncated_by_its_time(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log = log_dir.create_log("t", 0, TOPIC_ID, SMALL)
    records = [SimpleRecord(b"", b"v", NOW_MS - 10)]
    append(log, build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(log, marker(7, 0, committed=True))
    log_dir.close()
    truncate_at_moment(tmp_path, NOW_MS - 5, NOW_MS)
    log_dir = opened(tmp_path)
    log = log_dir.logs["t", 0]
    assert (log.log_end_offset, log.last_stable_offset) == (1, 0)
    log_dir.close()


@pytest.mark.parametrize(("offset", "moment", "kept"), [(0, 0, []), (1, 1, [1]), (2, 3, [1]), (3, 3, [1, 3]), (5, 9, [1, 3, 9])])
def test_as_of_an_offset_is_the_time_at_which_the_log_ended_there(tmp_path: Path, offset: int, moment: int, kept: list[int]) -> None:
    filled(tmp_path, [[NOW_MS - 99], [NOW_MS - 98, NOW_MS - 97], [NOW_MS - 91, NOW_MS - 92]])
    assert truncate_at_moment(tmp_path, AtOffset("t", 0, offset), NOW_MS) == NOW_MS - 100 + moment
    assert times_in(tmp_path) == [NOW_MS - 100 + time for time in kept]


def test_named_log_ends_at_the_offset_even_with_unordered_timestamps(tmp_path: Path) -> None:
    filled(tmp_path, [[NOW_MS - 90], [NOW_MS - 98], [NOW_MS - 80]])
    assert truncate_at_moment(tmp_path, AtOffset("t", 0, 2), NOW_MS) == NOW_MS - 98
    assert times_in(tmp_path) == [NOW_MS - 90, NOW_MS - 98]


@pytest.mark.parametrize(
    ("moment", "problem"),
    [
        (NOW_MS + 1, "the moment is in the future"),
        (AtOffset("t", 0, 3), "t-0 has the offsets from 0 to 2, not 3"),
        (AtOffset("t", 1, 0), "has no partition 1 of a topic t"),
        (AtOffset("empty", 0, 0), "empty-0 has no records"),
    ],
)
def test_unavailable_moment_is_rejected(tmp_path: Path, moment: int | AtOffset, problem: str) -> None:
    filled(tmp_path, [[NOW_MS - 99], [NOW_MS - 98]])
    log_dir = opened(tmp_path)
    log_dir.create_log("empty", 0, bytes(15) + b"\3", SMALL, at_once=True)
    log_dir.close()
    with pytest.raises(ForkRefused, match=problem):
        truncate_at_moment(tmp_path, moment, NOW_MS)

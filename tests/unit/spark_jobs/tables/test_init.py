"""Batches and records as Arrow columns."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.tables import read
from tests.support.kafka_logs import T0, PartitionWriter, checkpoint, flip, numbered

RECORDS = ["topic", "offset", "timestamp", "control"]
BATCHES = ["base_offset", "records_found", "marker", "crc_ok"]


def records(root: Path) -> list[dict[str, object]]:
    return [row for batch in read("records", [root], RECORDS) for row in batch.to_pylist()]


def batches(root: Path) -> list[dict[str, object]]:
    return [row for batch in read("batches", [root], BATCHES) for row in batch.to_pylist()]


def test_records_below_the_log_start_offset_are_not_given(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    log.data(3)
    checkpoint(tmp_path, "log-start-offset-checkpoint", [("t", 0, 4)])
    assert [row["offset"] for row in records(tmp_path)] == [4, 5]
    assert [row["base_offset"] for row in batches(tmp_path)] == [3]


def test_records_of_a_damaged_batch_are_not_given(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    log.data(3)
    flip(log.file, 100)
    assert [row["offset"] for row in records(tmp_path)] == [3, 4, 5]
    assert [(row["crc_ok"], row["records_found"]) for row in batches(tmp_path)] == [(False, None), (True, 3)]


def test_append_time_stands_for_every_records_timestamp(tmp_path: Path) -> None:
    from protocol.records.record import build_batch

    PartitionWriter(tmp_path, "t", 0).batch(build_batch(numbered(2), log_append_time=T0 + 99))
    assert [row["timestamp"] for row in records(tmp_path)] == [T0 + 99, T0 + 99]


def test_a_marker_says_how_its_transaction_ended(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.marker(1)
    log.marker(1, committed=False)
    assert [row["marker"] for row in batches(tmp_path)] == ["commit", "abort"]
    assert [row["control"] for row in records(tmp_path)] == [True, True]

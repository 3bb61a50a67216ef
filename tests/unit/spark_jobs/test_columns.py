"""Batches and records as Arrow columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from spark_jobs.columns import batch_rows, record_rows
from spark_jobs.log_files import find_logs
from tests.support.kafka_logs import T0, PartitionWriter, checkpoint, flip, numbered

RECORDS = pa.schema([("topic", pa.string()), ("offset", pa.int64()), ("timestamp", pa.int64()), ("control", pa.bool_())])
BATCHES = pa.schema([("base_offset", pa.int64()), ("records_found", pa.int32()), ("marker", pa.string()), ("crc_ok", pa.bool_())])


def records(root: Path) -> list[dict[str, object]]:
    return [row for s in find_logs(root).segments for batch in record_rows(s, RECORDS) for row in batch.to_pylist()]


def batches(root: Path, *, walk_records: bool = True) -> list[dict[str, object]]:
    return [row for s in find_logs(root).segments for b in batch_rows(s, BATCHES, walk_records=walk_records) for row in b.to_pylist()]


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


def test_records_are_counted_only_when_asked_for(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0).data(3)
    assert [row["records_found"] for row in batches(tmp_path, walk_records=False)] == [None]

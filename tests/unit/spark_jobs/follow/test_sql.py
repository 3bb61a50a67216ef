"""The state that is remembered of a log, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from ottla.spark_jobs import views
from ottla.spark_jobs.engines.embedded import arrow_schema
from ottla.spark_jobs.follow.judge import judge
from ottla.spark_jobs.tables import read
from tests.support.kafka_logs import PartitionWriter

SCHEMA = arrow_schema(views.RAW_BATCHES_NEED)
ARGS = {"expiration_ms": 86_400_000, "transaction_timeout_ms": 900_000}


def remembered(root: Path) -> list[dict[str, Any]]:
    rows = pa.Table.from_batches(list(read("batches", [root], SCHEMA.names)), SCHEMA)
    found: list[dict[str, Any]] = judge(rows, None, ARGS, caught_up=True).state.to_pylist()
    return found


def test_batches_before_the_last_five_are_merged_to_one_range_across_the_sequence_wrap(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for i in range(10):
        log.data(5, pid=1, seq=(2**31 - 10 + 5 * i) % 2**31)
    state = remembered(tmp_path)
    (merged,) = [row for row in state if row["merged"]]
    assert (merged["base_sequence"], merged["last_offset_delta"], merged["last_sequence"]) == (2**31 - 10, 24, 14)
    assert sorted(row["base_sequence"] for row in state if row["of_sequence"] and not row["merged"]) == [15, 20, 25, 30, 35]


def test_producer_fields_of_a_row_kept_only_for_its_partition_are_masked(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5, pid=1, seq=0, leader_epoch=9)
    log.data(5, pid=2, seq=0, at=1_700_000_000_000 + 2 * 86_400_000)
    masked = {(row["base_offset"], row["producer_id"], row["base_sequence"], row["tail"]) for row in remembered(tmp_path)}
    assert masked == {(0, -1, -1, True), (5, 2, 0, True)}

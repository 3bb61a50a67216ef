"""The levels `markers`, `transactions` and `offsets`: control batches, and the records of Kafka's internal topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.protocol.offset_log import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import encode_prefixed
from ottla.spark_jobs.tables import Filters, read
from tests.support.kafka_logs import T0, PartitionWriter, flip


def rows(root: Path, level: str, columns: list[str], filters: Filters | None = None) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in read(level, [root], columns, filters) for row in batch.to_pylist()]


def commit(group: str, offset: int | None, version: int = 4) -> SimpleRecord:
    key = encode_prefixed(OffsetCommitKey(group, "in", 3), OFFSET_COMMIT)
    value = None if offset is None else encode_prefixed(OffsetCommitValue(offset, 6, "note", T0 + 1), version)
    return SimpleRecord(key, value, T0)


def test_only_control_batches_are_markers(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    log.marker(7)
    log.marker(8, committed=False)
    found = rows(tmp_path, "markers", ["offset", "marker", "producer_id", "coordinator_epoch"])
    assert found == [(3, "commit", 7, 0), (4, "abort", 8, 0)]
    assert rows(tmp_path, "markers", ["offset"], Filters(start_offset=4)) == [(4,)]


def test_damaged_marker_is_omitted(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.marker(7)
    log.marker(8)
    flip(log.file, 70)
    assert rows(tmp_path, "markers", ["producer_id"]) == [(8,)]


def test_committed_offset_rows_tell_whether_they_are_transactional(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "__consumer_offsets", 4)
    log.batch(build_batch([commit("g", 10), commit("g", None)]))
    log.batch(build_batch([commit("g", 20, version=1)], producer_id=9, producer_epoch=2, base_sequence=0, transactional=True))
    names = ["offset", "group_id", "committed_topic", "committed_partition", "committed_offset", "metadata", "transactional", "producer_id"]
    assert rows(tmp_path, "offsets", names) == [
        (0, "g", "in", 3, 10, "note", False, -1),
        (1, "g", "in", 3, None, None, False, -1),
        (2, "g", "in", 3, 20, "note", True, 9),
    ]


def test_other_records_and_topics_give_no_committed_offsets(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0).batch(build_batch([commit("g", 10)]))
    log = PartitionWriter(tmp_path, "__consumer_offsets", 0)
    log.batch(build_batch([SimpleRecord(b"\0\2\0\1g", b"\0\3junk"), SimpleRecord(b"\0\1\0", b""), commit("h", 1)]))
    assert rows(tmp_path, "offsets", ["group_id"]) == [("h",)]

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.spark_jobs.segment_reader import Part
from ottla.spark_jobs.tables import Filters, plan, read
from tests.support.kafka_logs import T0, PartitionWriter, checkpoint, flip, numbered

RECORDS = ["topic", "offset", "timestamp", "control"]
BATCHES = ["base_offset", "records_found", "marker", "crc_ok"]


def records(root: Path) -> list[dict[str, object]]:
    return [row for batch in read("records", [root], RECORDS) for row in batch.to_pylist()]


def batches(root: Path) -> list[dict[str, object]]:
    return [row for batch in read("batches", [root], BATCHES) for row in batch.to_pylist()]


def test_records_below_the_log_start_offset_are_omitted(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    log.data(3)
    checkpoint(tmp_path, "log-start-offset-checkpoint", [("t", 0, 4)])
    assert [row["offset"] for row in records(tmp_path)] == [4, 5]
    assert [row["base_offset"] for row in batches(tmp_path)] == [3]


def test_records_of_a_damaged_batch_are_omitted(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    log.data(3)
    flip(log.file, 100)
    assert [row["offset"] for row in records(tmp_path)] == [3, 4, 5]
    assert [(row["crc_ok"], row["records_found"]) for row in batches(tmp_path)] == [(False, None), (True, 3)]


def test_log_append_time_is_the_timestamp_of_every_record(tmp_path: Path) -> None:
    from ottla.protocol.records.record import build_batch

    PartitionWriter(tmp_path, "t", 0).batch(build_batch(numbered(2), log_append_time=T0 + 99))
    assert [row["timestamp"] for row in records(tmp_path)] == [T0 + 99, T0 + 99]


def test_marker_row_has_the_transactions_outcome(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.marker(1)
    log.marker(1, committed=False)
    assert [row["marker"] for row in batches(tmp_path)] == ["commit", "abort"]
    assert [row["control"] for row in records(tmp_path)] == [True, True]


def test_damaged_bytes_are_an_error_row_among_the_batches(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    log.raw(b"\xff" * 30)
    log.data(3)
    found = [(r["base_offset"], r["size_bytes"], r["torn"]) for b in read("batches", [tmp_path]) for r in b.to_pylist() if r["error"]]
    assert found == [(None, 30, False)]


def test_single_path_can_be_a_string(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0).data(3)
    assert [batch.num_rows for batch in read("records", str(tmp_path))] == [3]
    assert [sum(part.segment.size_bytes for part in task if isinstance(part, Part)) for task in plan("records", tmp_path)] == [
        (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size
    ]


@pytest.mark.parametrize("reads", [lambda path: list(read("records", [path])), lambda path: plan("records", [path])], ids=["read", "plan"])
def test_missing_directory_or_unreachable_cluster_raises_instead_of_returning_no_rows(
    tmp_path: Path, reads: Callable[[str], list[object]]
) -> None:
    with pytest.raises(OSError, match="missing: no such directory"):
        reads(str(tmp_path / "missing"))
    with pytest.raises(OSError, match=r"127\.0\.0\.1:1"):
        reads("kafka://127.0.0.1:1")
    assert reads(str(tmp_path)) == []


def test_directory_without_the_requested_topics_is_accepted_beside_another(tmp_path: Path) -> None:
    PartitionWriter(tmp_path / "one", "t", 0).data(3)
    PartitionWriter(tmp_path / "other", "u", 0).data(3)
    assert [batch.num_rows for batch in read("records", [tmp_path / "other", tmp_path / "one"], None, Filters(frozenset({"t"})))] == [3]


def test_string_instead_of_a_set_of_topics_is_rejected() -> None:
    with pytest.raises(TypeError, match="topics are a set"):
        Filters(topics="orders")  # type: ignore[arg-type] # on purpose


def test_filters_exclude_partitions_batches_and_records(tmp_path: Path) -> None:
    for partition in range(2):
        log = PartitionWriter(tmp_path, "t", partition)
        log.data(5)
        log.data(5, at=T0 + 1000)

    def offsets(level: str, column: str, filters: Filters) -> list[int]:
        return [row[column] for b in read(level, [tmp_path], [column], filters) for row in b.to_pylist()]

    one = frozenset({1})
    assert offsets("records", "offset", Filters(partitions=one, start_offset=3, end_offset=6)) == [3, 4, 5]
    assert offsets("batches", "base_offset", Filters(partitions=one, start_offset=6)) == [5]
    assert offsets("batches", "base_offset", Filters(partitions=one, start_timestamp=T0 + 1000)) == [5]
    assert offsets("batches", "base_offset", Filters(partitions=one, end_timestamp=T0 + 1000)) == [0]
    assert offsets("records", "offset", Filters(topics=frozenset({"u"}))) == []


def test_record_rows_have_headers_and_sequences_across_the_wrap(tmp_path: Path) -> None:
    from ottla.protocol.records.record import SimpleRecord, build_batch

    records = [SimpleRecord(b"k", b"v", T0, (("h", None), ("\udcff", b"1"))), SimpleRecord(None, None, T0)]
    PartitionWriter(tmp_path, "t", 0).batch(build_batch(records, producer_id=1, producer_epoch=0, base_sequence=2**31 - 1))
    columns = ["key", "value", "sequence", "headers"]
    first, second = (row for b in read("records", [tmp_path], columns) for row in b.to_pylist())
    assert first == {
        "key": b"k", "value": b"v", "sequence": 2**31 - 1, "headers": [{"key": "h", "value": None}, {"key": "\ufffd", "value": b"1"}]
    }  # fmt: skip
    assert second == {"key": None, "value": None, "sequence": 0, "headers": []}


def test_headers_of_many_batches_belong_to_their_records_and_names_may_have_any_bytes(tmp_path: Path) -> None:
    from ottla.protocol.records.record import SimpleRecord, build_batch

    log = PartitionWriter(tmp_path, "t", 0)
    expected: list[list[dict[str, object]]] = []
    for i in range(4):
        names = ["é", "", f"n{i}", "\udcc3"][: i + 1]
        log.batch(build_batch([SimpleRecord(b"k", None, T0, [(name, b"%d" % i) for name in names]), SimpleRecord(b"k", None, T0)]))
        expected += [[{"key": name.replace("\udcc3", "\ufffd"), "value": b"%d" % i} for name in names], []]
    assert [row["headers"] for b in read("records", [tmp_path], ["headers"]) for row in b.to_pylist()] == expected


@pytest.mark.parametrize("name", ["", "\udcff"], ids=["empty names", "invalid names"])
def test_very_many_headers_take_a_few_times_their_size_in_memory(tmp_path: Path, name: str) -> None:
    from ottla.protocol.records.compression import Codec
    from ottla.protocol.records.record import SimpleRecord, build_batch

    headers = 500_000
    PartitionWriter(tmp_path, "t", 0).batch(build_batch([SimpleRecord(None, None, T0, [(name, None)] * headers)], codec=Codec.GZIP))
    tracemalloc.start()
    try:
        (found,) = read("records", [tmp_path], ["headers"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(found["headers"]), found["headers"].value_lengths().to_pylist()) == (1, [headers])
    assert peak < 40 * headers, "two arrays of positions, the bytes, and 65,536 names at a time"

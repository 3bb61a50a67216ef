"""The `kafka_log` data source, used as a Spark user does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, LessThanOrEqual, Not
from pyspark.sql.types import StructType

from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs.source import KafkaLogSource, filters_of, narrowed
from ottla.spark_jobs.tables import Filters
from tests.support.kafka_logs import T0, PartitionWriter


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    spark.dataSource.register(KafkaLogSource)


def test_batch_row_has_the_header_fields(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 3)
    log.data(2)
    log.data(5, pid=9, epoch=2, seq=2**31 - 2, codec=Codec.ZSTD)
    _, row = spark.read.format("kafka_log").load(str(tmp_path)).orderBy("base_offset").collect()
    assert (row.topic, row.partition, row.base_offset, row.last_offset, row.record_count) == ("t", 3, 2, 6, 5)
    assert (row.producer_id, row.producer_epoch, row.base_sequence, row.last_sequence) == (9, 2, 2**31 - 2, 2)
    assert (row.codec, row.crc_ok, row.records_found, row.error, row.max_timestamp) == ("zstd", True, 5, None, T0)


def test_record_row_has_headers_and_sequence(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    records = [SimpleRecord(b"k", None, T0), SimpleRecord(None, b"v", T0 + 5, (("h", b"1"), ("h", None)))]
    log.batch(build_batch(records, codec=Codec.LZ4, producer_id=4, producer_epoch=0, base_sequence=2**31 - 1))
    first, second = spark.read.format("kafka_log").option("level", "records").load(str(tmp_path)).orderBy("offset").collect()
    assert (first.offset, first.key, first.value, first.headers, first.sequence) == (0, b"k", None, [], 2**31 - 1)
    assert (second.offset, second.key, second.value, second.timestamp, second.sequence) == (1, None, b"v", T0 + 5, 0)
    assert [(h.key, h.value) for h in second.headers] == [("h", b"1"), ("h", None)]


def test_directories_topics_and_columns_can_be_selected(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a", "b"):
        for topic in ("t", "u", "v"):
            PartitionWriter(tmp_path / name, topic, 0).data(1)
    source = spark.read.format("kafka_log").option("topic", "t,u").schema("topic string, log_dir string")
    rows = source.load([str(tmp_path / "a"), str(tmp_path / "b")]).collect()
    assert sorted((Path(r.log_dir).name, r.topic) for r in rows) == [("a", "t"), ("a", "u"), ("b", "t"), ("b", "u")]


def test_columns_that_need_records_are_null_if_walking_is_off(spark: SparkSession, tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0).data(3)
    row = spark.read.format("kafka_log").option("walk", "false").load(str(tmp_path)).first()
    assert row is not None
    assert (row.record_count, row.crc_ok, row.records_found, row.marker) == (3, True, None, None)


def test_walk_option_is_ignored_by_other_levels_than_batches(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(1, pid=7, epoch=0, seq=0, transactional=True)
    log.marker(7, coordinator_epoch=3)
    row = spark.read.format("kafka_log").option("level", "markers").option("walk", "false").load(str(tmp_path)).first()
    assert row is not None
    assert (row.marker, row.coordinator_epoch) == ("commit", 3)


@pytest.mark.parametrize(("value", "records_found"), [("TRUE", 3), ("False", None)])
def test_walk_option_ignores_case(spark: SparkSession, tmp_path: Path, value: str, records_found: int | None) -> None:
    PartitionWriter(tmp_path, "t", 0).data(3)
    row = spark.read.format("kafka_log").option("walk", value).load(str(tmp_path)).first()
    assert row is not None
    assert row.records_found == records_found


@pytest.mark.parametrize("level", ["batches", "records"])
def test_walk_option_is_rejected_if_neither_true_nor_false(level: str) -> None:
    with pytest.raises(ValueError, match="option walk: must be true or false, not 'no'"):
        KafkaLogSource({"level": level, "walk": "no", "path": "x"}).reader(StructType([]))


def test_query_filters_are_pushed_down_and_do_not_change_the_result(spark: SparkSession, tmp_path: Path) -> None:
    for partition in range(3):
        log = PartitionWriter(tmp_path, "t", partition)
        for _ in range(4):
            log.data(5)
            log.roll()
    frame = spark.read.format("kafka_log").option("level", "records").schema("partition int, offset bigint").load(str(tmp_path))
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    found = frame.where("partition in (0, 2) and offset >= 6 and offset < 12")
    assert found.rdd.getNumPartitions() < frame.rdd.getNumPartitions() or found.rdd.getNumPartitions() == 1
    assert sorted((r.partition, r.offset) for r in found.collect()) == [(p, o) for p in (0, 2) for o in range(6, 12)]


def test_query_filters_work_without_push_down(spark: SparkSession, tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0).data(5)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert spark.read.format("kafka_log").option("level", "records").load(str(tmp_path)).where("offset > 2").count() == 2
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        (EqualTo(("topic",), "t"), Filters(topics=frozenset({"t"}))),
        (In(("partition",), (1, 2, None)), Filters(partitions=frozenset({1, 2}))),
        (EqualTo(("offset",), 7), Filters(start_offset=7, end_offset=8)),
        (GreaterThan(("offset",), 7), Filters(start_offset=8)),
        (LessThanOrEqual(("timestamp",), 7), Filters(end_timestamp=8)),
        (Not(EqualTo(("offset",), 7)), Filters()),
        (EqualTo(("key",), b"7"), Filters()),
        (EqualTo(("headers", "offset"), 7), Filters()),
    ],
)
def test_pushed_filter_narrows_the_read_if_it_limits_place_or_time(pushed: Filter, expected: Filters) -> None:
    assert narrowed("records", Filters(), pushed) == expected


def test_offset_and_time_ranges_can_be_options(tmp_path: Path) -> None:
    options = {"path": "x", "topic": "a,b", "partition": "3", "start_offset": "5", "end_timestamp": "9"}
    expected = Filters(frozenset({"a", "b"}), frozenset({3}), start_offset=5, end_timestamp=9)
    assert filters_of(options) == expected
    with pytest.raises(ValueError, match="option start_offset: 'soon' is not a number"):
        filters_of({"start_offset": "soon"})


def test_unknown_option_is_rejected() -> None:
    with pytest.raises(ValueError, match="unknown option 'topics': one of path, level, topic,"):
        KafkaLogSource({"topics": "orders", "path": "x"}).reader(StructType([]))
    KafkaLogSource({"Topic": "orders", "security.protocol": "SSL", "path": "x"}).reader(StructType([]))


def test_an_unknown_level_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unknown level 'keys'"):
        KafkaLogSource({"level": "keys", "path": "x"}).schema()

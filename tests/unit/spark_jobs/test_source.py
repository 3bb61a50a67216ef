"""The `kafka_log` data source, as a Spark user meets it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from protocol.records.compression import Codec
from protocol.records.record import SimpleRecord, build_batch
from spark_jobs.log_files import find_logs
from spark_jobs.source import KafkaLogSource, pack
from tests.support.kafka_logs import T0, PartitionWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    spark.dataSource.register(KafkaLogSource)


def test_a_batch_is_a_row_of_its_header(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 3)
    log.data(2)
    log.data(5, pid=9, epoch=2, seq=2**31 - 2, codec=Codec.ZSTD)
    _, row = spark.read.format("kafka_log").load(str(tmp_path)).orderBy("base_offset").collect()
    assert (row.topic, row.partition, row.base_offset, row.last_offset, row.record_count) == ("t", 3, 2, 6, 5)
    assert (row.producer_id, row.producer_epoch, row.base_sequence, row.last_sequence) == (9, 2, 2**31 - 2, 2)
    assert (row.codec, row.crc_ok, row.records_found, row.error, row.max_timestamp) == ("zstd", True, 5, None, T0)


def test_a_record_is_a_row_with_headers_and_sequence(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    records = [SimpleRecord(b"k", None, T0), SimpleRecord(None, b"v", T0 + 5, (("h", b"1"), ("h", None)))]
    log.batch(build_batch(records, codec=Codec.LZ4, producer_id=4, producer_epoch=0, base_sequence=2**31 - 1))
    first, second = spark.read.format("kafka_log").option("level", "records").load(str(tmp_path)).orderBy("offset").collect()
    assert (first.offset, first.key, first.value, first.headers, first.sequence) == (0, b"k", None, [], 2**31 - 1)
    assert (second.offset, second.key, second.value, second.timestamp, second.sequence) == (1, None, b"v", T0 + 5, 0)
    assert [(h.key, h.value) for h in second.headers] == [("h", b"1"), ("h", None)]


def test_several_directories_topics_and_fewer_columns_can_be_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a", "b"):
        for topic in ("t", "u", "v"):
            PartitionWriter(tmp_path / name, topic, 0).data(1)
    source = spark.read.format("kafka_log").option("topic", "t,u").schema("topic string, log_dir string")
    rows = source.load([str(tmp_path / "a"), str(tmp_path / "b")]).collect()
    assert sorted((Path(r.log_dir).name, r.topic) for r in rows) == [("a", "t"), ("a", "u"), ("b", "t"), ("b", "u")]


def test_segments_share_tasks_evenly_and_none_is_lost(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for _ in range(40):
        log.data(rows=["x" * 100_000])
        log.roll()
    groups = pack(find_logs(tmp_path).segments)
    sizes = [sum(s.size_bytes for s in group.segments) for group in groups]
    assert sorted(s.base_offset for group in groups for s in group.segments) == list(range(40))
    assert max(sizes) <= 1 << 20
    assert len(groups) == 8


def test_an_unknown_level_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unknown level 'keys'"):
        KafkaLogSource({"level": "keys", "path": "x"}).schema()

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from ottla.spark_jobs import views
from ottla.spark_jobs.source import KafkaLogSource
from tests.support.kafka_logs import PartitionWriter, checkpoint, flip


def batches(spark: SparkSession, root: Path) -> list[Row]:
    spark.dataSource.register(KafkaLogSource)
    spark.read.format("kafka_log").schema(views.RAW_BATCHES_NEED).load(str(root)).createOrReplaceTempView("raw_batches")
    rows: list[Row] = spark.sql(views.batches()).orderBy("position").collect()
    return rows


def test_untrusted_batch_is_omitted_and_counted_before_later_ones(spark: SparkSession, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for _ in range(3):
        log.data(5)
    flip(log.file, log.file.stat().st_size // 2)
    assert [(r.base_offset, r.blind_before, r.hole) for r in batches(spark, tmp_path)] == [(0, 0, 0), (10, 1, 0)]


@pytest.mark.parametrize(("cleaned_to", "legal"), [(0, 0), (5, 5), (20, 5)])
def test_hole_is_legal_only_below_the_cleaner_checkpoint(spark: SparkSession, tmp_path: Path, cleaned_to: int, legal: int) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5)
    log.data(5, offset=10)
    checkpoint(tmp_path, "cleaner-offset-checkpoint", [("t", 0, cleaned_to)])
    last = batches(spark, tmp_path)[-1]
    assert (last.hole, last.holes_before) == (5, legal)

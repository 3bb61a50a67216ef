"""The stream of data appended to logs: progress, limits, growth and deletion."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes

from ottla.spark_jobs.source import KafkaLogSource
from ottla.spark_jobs.stream import KafkaLogStreamReader, Offset
from ottla.spark_jobs.tables import Filters, arrow_schema
from tests.support.kafka_logs import PartitionWriter

ALL = ReadAllAvailable()


def reader(root: Path, columns: Sequence[str] = ("topic", "partition", "base_offset", "error")) -> KafkaLogStreamReader:
    return KafkaLogStreamReader([str(root)], "batches", Filters(), arrow_schema("batches", columns), unread=frozenset())


def step(stream: KafkaLogStreamReader, start: Offset, limit: ReadLimit = ALL) -> tuple[Offset, list[tuple[str, int, int | None]]]:
    """Run one micro-batch; return its end offset, and (topic, partition, base offset; None for damage) of its rows."""
    end = json.loads(json.dumps(stream.latestOffset(start, limit)))
    rows = [row for part in stream.partitions(start, end) for batch in stream.read(part) for row in batch.to_pylist()]
    return end, sorted(((row["topic"], row["partition"], None if row["error"] else row["base_offset"]) for row in rows), key=str)


def test_stream_step_returns_appended_batches_of_old_and_new_segments_and_topics(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    stream = reader(tmp_path)
    end, rows = step(stream, stream.initialOffset())
    assert rows == [("t", 0, 0)]
    assert step(stream, end) == (end, [])
    log.data(2)
    log.roll()
    log.data(1)
    PartitionWriter(tmp_path, "u", 7).data(1)
    end, rows = step(stream, end)
    assert rows == [("t", 0, 3), ("t", 0, 5), ("u", 7, 0)]
    assert step(stream, end)[1] == []


def test_partially_written_batch_waits_until_it_is_complete(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    first = log.file.stat().st_size
    log.data(3)
    content = log.file.read_bytes()
    stream = reader(tmp_path)
    end: Offset = {}
    for cut in (first + 5, first + 30, len(content) - 1):
        log.file.write_bytes(content[:cut])
        end, rows = step(stream, end)
        assert rows == ([("t", 0, 0)] if cut == first + 5 else [])
    log.file.write_bytes(content)
    assert step(stream, end)[1] == [("t", 0, 3)]


def test_foreign_bytes_are_reported_once_a_batch_follows_them(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    content = log.file.read_bytes()
    log.file.write_bytes(content + b"\xff" * 40)
    stream = reader(tmp_path)
    end, rows = step(stream, {})
    assert rows == [("t", 0, 0)]
    log.data(2)
    end, rows = step(stream, end)
    assert rows == [("t", 0, 3), ("t", 0, None)]


def test_stream_steps_are_limited_and_together_return_everything(tmp_path: Path) -> None:
    for partition in range(3):
        log = PartitionWriter(tmp_path, "t", partition)
        for _ in range(10):
            log.data(5)
            if partition == 1:
                log.roll()
    stream = reader(tmp_path)
    end: Offset = {}
    given: list[tuple[str, int, int | None]] = []
    steps = 0
    while len(given) < 30:
        end, rows = step(stream, end, ReadMaxBytes(1000))
        assert 1 <= len(rows) <= 5
        given += rows
        steps += 1
    assert steps > 5
    assert sorted(given) == [("t", p, 5 * i) for p in range(3) for i in range(10)]


def test_available_now_ends_at_the_log_ends_of_its_start(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    log.data(3)
    stream = reader(tmp_path)
    stream.prepareForTriggerAvailableNow()
    log.data(3)
    log.roll()
    log.data(3)
    PartitionWriter(tmp_path, "u", 0).data(1)
    end, rows = step(stream, {}, ReadMaxBytes(1))
    assert rows == [("t", 0, 0)]
    end, rows = step(stream, end, ReadMaxBytes(1))
    assert rows == [("t", 0, 3)]
    assert step(stream, end, ReadMaxBytes(1)) == (end, [])


def test_segments_removed_by_retention_are_skipped(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    stream = reader(tmp_path)
    end, _ = step(stream, {})
    old = log.file
    log.roll()
    log.data(2)
    old.unlink()
    assert step(stream, end)[1] == [("t", 0, 3)]


def test_a_log_that_was_truncated_raises_also_when_it_has_grown_again(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    kept = log.file.read_bytes()
    log.data(3)
    stream = reader(tmp_path)
    end, _ = step(stream, {})
    log.file.write_bytes(kept)
    log.next_offset = 3
    for _ in range(3):
        with pytest.raises(OSError, match="t-0 has other bytes than those that were read"):
            step(stream, end)
        log.data(2)


@pytest.mark.parametrize("closed", [False, True])
def test_a_segment_that_was_merged_into_an_earlier_one_raises_unless_it_was_read_to_its_end(closed: bool, tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(3)
    log.roll()
    log.data(3)
    merged = log.file
    if closed:
        log.roll()
    stream = reader(tmp_path)
    end, _ = step(stream, {}, ReadMaxBytes(2 * merged.stat().st_size))
    log.roll()
    log.data(3)
    merged.unlink()
    if closed:
        assert step(stream, end)[1] == [("t", 0, 6)]
    else:
        with pytest.raises(OSError, match="t-0 has other bytes than those that were read"):
            step(stream, end)


def test_structured_stream_continues_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(KafkaLogSource)
    log = PartitionWriter(tmp_path / "logs", "t", 0)

    def run() -> int:
        frame = spark.readStream.format("kafka_log").schema("base_offset bigint").load(str(tmp_path / "logs"))
        out = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        out.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
        return spark.read.parquet(str(tmp_path / "out")).count()

    log.data(3)
    assert run() == 1
    log.data(3)
    log.data(3)
    assert run() == 3


def test_level_of_rewritten_files_cannot_be_streamed(tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    with pytest.raises(ValueError, match="is no stream"):
        KafkaLogSource({"path": str(tmp_path), "level": "snapshots"}).streamReader(StructType())

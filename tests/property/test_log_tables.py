"""Reading logs in parts and with filters: the parts together, however split, give exactly the wanted rows of reading the whole logs."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs import splits
from ottla.spark_jobs.tables import Filters, arrow_schema, plan, read, read_task
from tests.support.kafka_logs import T0, PartitionWriter, checkpoint, flip

BATCH = st.tuples(st.integers(1, 6), st.sampled_from(list(Codec)), st.integers(-50, 50), st.integers(0, 400))
DAMAGE = st.one_of(st.none(), st.tuples(st.sampled_from(["flip", "cut", "zeros", "noise"]), st.floats(0, 0.999)))
INDEX = st.sampled_from(["none", "right", "wrong"])


def written(root: Path, batches: list[tuple[int, Codec, int, int]], index: str, damage: tuple[str, float] | None) -> None:
    """Write a partition of two segments with these batches, an offset index that is correct, wrong or absent, and damage at one place."""
    log = PartitionWriter(root, "t", 0)
    entries, offset = b"", 0
    for i, (count, codec, time, size) in enumerate(batches):
        if i == len(batches) // 2 and i:
            log.file.with_suffix(".index").write_bytes(entries if index != "none" else b"")
            log.roll()
            entries = b""
        start = log.file.stat().st_size + (7 if index == "wrong" else 0)
        entries += struct.pack(">ii", offset + count - 1 - int(log.file.stem), start) if start else b""
        records = [SimpleRecord(b"k" if j % 2 else None, b"v" * size, T0 + time + j, (("h", b"1"),)) for j in range(count)]
        log.batch(build_batch(records, base_offset=offset, codec=codec, producer_id=i % 3, producer_epoch=0, base_sequence=2**31 - 2))
        offset += count
    log.file.with_suffix(".index").write_bytes(entries if index != "none" else b"")
    content = log.file.read_bytes()
    if damage is not None and content:
        at = int(damage[1] * len(content))
        if damage[0] == "flip":
            flip(log.file, at)
        else:
            log.file.write_bytes(
                {"cut": content[:at], "zeros": content + bytes(at), "noise": content[:at] + b"\xfe" * 50 + content[at:]}[damage[0]]
            )
    checkpoint(root, "log-start-offset-checkpoint", [("t", 0, offset // 10)])


def rows(batches: Any) -> list[str]:
    """Return the rows as text, sorted, to compare them in any order."""
    return sorted(str(row) for batch in batches for row in batch.to_pylist())


@settings(max_examples=40)
@given(st.lists(BATCH, min_size=1, max_size=12), INDEX, DAMAGE, st.integers(150, 2000), st.sampled_from(["batches", "records"]))
def test_read_tasks_together_return_the_rows_of_a_single_read(
    batches: list[tuple[int, Codec, int, int]], index: str, damage: tuple[str, float] | None, target: int, level: str
) -> None:
    with tempfile.TemporaryDirectory() as directory, patch.multiple(splits, TASK_BYTES_MAX=target, TASK_BYTES_MIN=target):
        root = Path(directory)
        written(root, batches, index, damage)
        tasks = plan(level, [root])
        together = [b for task in tasks for b in read_task(level, task, arrow_schema(level), Filters())]
        assert rows(together) == rows(read(level, [root]))


@settings(max_examples=40)
@given(
    st.lists(BATCH, min_size=1, max_size=12),
    INDEX,
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(-60, 60),
    st.integers(-60, 60),
    st.integers(150, 2000),
)
def test_filtered_read_tasks_return_the_matching_rows_of_a_full_read(  # noqa: PLR0917 # each is drawn
    batches: list[tuple[int, Codec, int, int]], index: str, start: int, length: int, early: int, late: int, target: int
) -> None:
    filters = Filters(start_offset=start, end_offset=start + length, start_timestamp=T0 + early, end_timestamp=T0 + late)
    with tempfile.TemporaryDirectory() as directory, patch.multiple(splits, TASK_BYTES_MAX=target, TASK_BYTES_MIN=target):
        root = Path(directory)
        written(root, batches, index, None)
        schema = arrow_schema("records")
        found = [b for task in plan("records", [root], filters) for b in read_task("records", task, schema, filters)]
        whole = [row for b in read("records", [root]) for row in b.to_pylist()]
        wanted = [r for r in whole if start <= r["offset"] < start + length and T0 + early <= r["timestamp"] < T0 + late]
        assert rows(found) == sorted(map(str, wanted))


@settings(max_examples=30)
@given(st.lists(BATCH, min_size=1, max_size=12), DAMAGE, st.sets(st.sampled_from(list(arrow_schema("batches").names)), min_size=1))
def test_reading_fewer_columns_returns_the_same_rows_of_an_intact_log(
    batches: list[tuple[int, Codec, int, int]], damage: tuple[str, float] | None, names: set[str]
) -> None:
    columns = sorted(names)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        written(root, batches, "none", damage if damage is None or damage[0] in {"cut", "zeros"} else None)
        whole = [{name: row[name] for name in columns} for b in read("batches", [root]) for row in b.to_pylist()]
        assert [row for b in read("batches", [root], columns) for row in b.to_pylist()] == whole

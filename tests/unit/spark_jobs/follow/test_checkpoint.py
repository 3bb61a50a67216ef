"""The state that a checkpoint keeps, and what a restart restores from it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.spark_jobs.follow.checkpoint import FindingsTable, FollowCheckpoint, JsonLines
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.sinks import TableFormat
from tests.support.tables import read_back


def table(value: int) -> pa.Table:
    return pa.table({"x": [value]})


def test_micro_batch_starts_with_the_state_of_the_previous_one(tmp_path: Path) -> None:
    assert FollowCheckpoint(tmp_path).state_before(0) is None
    FollowCheckpoint(tmp_path).store_state(0, table(7))
    assert FollowCheckpoint(tmp_path).state_before(1).equals(table(7))


def test_a_micro_batch_counts_as_judged_when_its_state_is_kept(tmp_path: Path) -> None:
    checkpoint = FollowCheckpoint(tmp_path)
    assert not checkpoint.judged(0)
    checkpoint.store_state(0, table(1))
    assert FollowCheckpoint(tmp_path).judged(0)
    assert not checkpoint.judged(1)


def test_last_two_states_are_stored(tmp_path: Path) -> None:
    checkpoint = FollowCheckpoint(tmp_path)
    for number in range(12):
        checkpoint.store_state(number, table(number))
    assert sorted(file.name for file in (tmp_path / "judged").iterdir()) == ["10.parquet", "11.parquet"]


def test_checkpoint_without_its_state_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match="the checkpoint is not whole"):
        FollowCheckpoint(tmp_path).state_before(3)


def test_a_repeated_micro_batch_replaces_the_lines_of_its_killed_attempt(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("of another checkpoint\n")
    JsonLines(file, tmp_path).append(0, ["a"])
    JsonLines(file, tmp_path).append(1, ["b", "c"])
    killed = file.read_bytes()
    for length in range(len(killed) - len("b\nc\n"), len(killed) + 1):
        file.write_bytes(killed[:length])
        JsonLines(file, tmp_path).append(1, ["b", "c"])
        assert file.read_bytes() == killed
    JsonLines(file, tmp_path).append(1, [])
    assert file.read_text() == "of another checkpoint\na\n"


def test_recreated_or_new_output_file_gets_the_lines(tmp_path: Path) -> None:
    JsonLines(tmp_path / "lines", tmp_path).append(0, ["a"])
    (tmp_path / "lines").unlink()
    JsonLines(tmp_path / "lines", tmp_path).append(0, ["a"])
    JsonLines(tmp_path / "other", tmp_path).append(0, ["b"])
    assert [(tmp_path / name).read_text() for name in ("lines", "other")] == ["a\n", "b\n"]


@pytest.mark.parametrize("kind", TableFormat)
def test_findings_of_a_repeated_micro_batch_are_in_the_table_once(tmp_path: Path, kind: TableFormat) -> None:
    def append(number: int, checkpoint: str, *offsets: int) -> None:
        findings = [{"rule": "crc", "topic": "t", "partition": 0, "offset": offset, "evidence": {"a": 1}} for offset in offsets]
        FindingsTable(kind, tmp_path / "tables", tmp_path / checkpoint).append(number, findings)

    append(0, "c", 1, 2)
    append(0, "c", 1, 2)
    append(1, "c")
    append(2, "c", 3)
    append(2, "c", 3)
    append(0, "another", 1)
    rows = read_back(kind, tmp_path / "tables", "followed_findings")
    assert sorted((row["micro_batch"], row["offset"], row["evidence"]) for row in rows) == [
        (0, 1, '{"a": 1}'),
        (0, 1, '{"a": 1}'),
        (0, 2, '{"a": 1}'),
        (2, 3, '{"a": 1}'),
    ]

"""What a checkpoint keeps, and what a restart is told from it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.spark_jobs.follow.memory import Memory
from ottla.spark_jobs.session import CannotJudge


def table(value: int) -> pa.Table:
    return pa.table({"x": [value]})


def test_each_micro_batch_begins_with_what_the_one_before_gave(tmp_path: Path) -> None:
    assert Memory(tmp_path).before(0) is None
    Memory(tmp_path).keep(0, table(7))
    assert Memory(tmp_path).before(1).equals(table(7))


def test_a_micro_batch_is_told_only_when_it_was_noted(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.keep(0, table(1))
    assert not memory.told(0)
    memory.note_told(0)
    assert Memory(tmp_path).told(0)
    assert not memory.told(1)


def test_the_last_two_are_kept_so_that_the_last_can_be_done_again(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    for number in range(12):
        memory.keep(number, table(number))
        memory.note_told(number)
    assert sorted(file.name for file in (tmp_path / "judged").iterdir()) == ["10.parquet", "10.told", "11.parquet", "11.told"]


def test_a_checkpoint_that_lost_its_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match="the checkpoint is not whole"):
        Memory(tmp_path).before(3)

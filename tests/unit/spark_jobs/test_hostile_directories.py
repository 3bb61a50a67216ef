"""A directory of logs that somebody else made: nothing in it stops an audit, takes its memory, or passes for clean."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.log_files import CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LEADER_EPOCHS, LOG_START_CHECKPOINT
from ottla.spark_jobs.verdict import DirectoryVerdict
from tests.support.kafka_logs import PartitionWriter

FIRST = "00000000000000000000"
MEMORY_BYTES = 3 << 30
"""Of addresses, most of which is the engine's code and the reservations of its threads."""


def judged(root: Path) -> DirectoryVerdict:
    (found,) = audit(root, engine="duckdb").directories
    return found


def sound_log(root: Path) -> PartitionWriter:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    return log


@pytest.mark.parametrize("name", [LOG_START_CHECKPOINT, CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT])
def test_a_fifo_in_the_place_of_a_checkpoint_is_a_problem(tmp_path: Path, name: str) -> None:
    sound_log(tmp_path)
    os.mkfifo(tmp_path / name)
    found = judged(tmp_path)
    assert [problem for problem in found.problems if name in problem and "not a regular file" in problem]
    assert found.batches == 1


@pytest.mark.parametrize("kind", ["a FIFO", "a link to a FIFO", "a link to a device"])
def test_what_is_no_file_in_the_place_of_a_segment_is_a_problem(tmp_path: Path, kind: str) -> None:
    sound_log(tmp_path)
    place = tmp_path / "t-0" / f"{5:020}.log"
    if kind == "a link to a device":
        place.symlink_to("/dev/zero")
    else:
        fifo = place if kind == "a FIFO" else tmp_path / "fifo"
        os.mkfifo(fifo)
        if fifo != place:
            place.symlink_to(fifo)
    assert any("not a regular file; t-0 is not judged" in problem for problem in judged(tmp_path).problems)


@pytest.mark.parametrize("name", [f"{FIRST}.index", f"{FIRST}.snapshot", LEADER_EPOCHS])
def test_what_is_no_file_beside_a_segment_is_a_problem_and_the_log_is_judged(tmp_path: Path, name: str) -> None:
    sound_log(tmp_path)
    (tmp_path / "t-0" / name).symlink_to("/dev/zero")
    found = judged(tmp_path)
    assert any("not a regular file; it is not held against the log" in problem for problem in found.problems)
    assert found.batches == 1


@pytest.mark.parametrize(
    ("name", "size"),
    [(f"{FIRST}.index", 8 << 30), (f"{FIRST}.timeindex", 1 << 30), (f"{FIRST}.snapshot", 8 << 30), (LEADER_EPOCHS, 8 << 30)],
)
def test_a_sparse_file_takes_no_memory_and_is_named(tmp_path: Path, name: str, size: int) -> None:
    """In a process that may not have half of what the file says it has."""
    sound_log(tmp_path)
    with (tmp_path / "t-0" / name).open("wb") as file:
        file.truncate(size - 1)
        file.seek(size - 1)
        file.write(b"\1")
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}))\n"
        f"from ottla.spark_jobs.audit import audit\n"
        f"verdict = audit({str(tmp_path)!r}, engine='duckdb')\n"
        f"print(verdict.to_json()); raise SystemExit(verdict.exit_code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert "MemoryError" not in done.stderr, done.stderr[-2_000:]
    assert name in done.stdout, "a problem, or a warning of the rule for indexes"


def test_a_preallocated_index_of_zeros_is_clean(tmp_path: Path) -> None:
    sound_log(tmp_path)
    with (tmp_path / "t-0" / f"{FIRST}.index").open("wb") as file:
        file.truncate(10 << 20)
    found = judged(tmp_path)
    assert not found.problems
    assert not any(rule.samples for rule in found.rules.values())


def test_a_bomb_of_records_is_not_opened_and_said_to_be(tmp_path: Path) -> None:
    """A million and one empty records, which compress to next to nothing; nine million took 25 s and 400 MB."""
    log = sound_log(tmp_path)
    log.batch(build_batch([SimpleRecord(None, None, 0)] * 1_000_001, codec=Codec.ZSTD))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    found = judged(tmp_path)
    assert [sample.evidence["detail"] for sample in found.rules["counts"].samples] == [
        "not opened: zstd: 1000001 records, more than 1000000"
    ]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20

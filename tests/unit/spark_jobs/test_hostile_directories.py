"""A maliciously made directory of logs: it neither stops an audit, nor exhausts its memory, nor passes as clean."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from ottla.protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs import report
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.corpus.groups import Pipeline
from ottla.spark_jobs.explain import explain_command
from ottla.spark_jobs.log_files import CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LEADER_EPOCHS, LOG_START_CHECKPOINT
from ottla.spark_jobs.reports import junit
from ottla.spark_jobs.verdict import DirectoryVerdict
from tests.support.kafka_logs import PartitionWriter, numbered

FIRST = "00000000000000000000"
MEMORY_BYTES = 3 << 30
"""Address space, most of which is the engine's code and its threads' reservations."""


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
def test_fifo_or_device_in_place_of_a_segment_is_a_problem(tmp_path: Path, kind: str) -> None:
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
def test_device_in_place_of_a_side_file_is_a_problem_and_the_log_is_judged(tmp_path: Path, name: str) -> None:
    sound_log(tmp_path)
    (tmp_path / "t-0" / name).symlink_to("/dev/zero")
    found = judged(tmp_path)
    assert any("not a regular file; it is not held against the log" in problem for problem in found.problems)
    assert found.batches == 1


@pytest.mark.parametrize(
    ("name", "size"),
    [(f"{FIRST}.index", 8 << 30), (f"{FIRST}.timeindex", 1 << 30), (f"{FIRST}.snapshot", 8 << 30), (LEADER_EPOCHS, 8 << 30)],
)
def test_sparse_file_is_judged_in_limited_memory_and_reported(tmp_path: Path, name: str, size: int) -> None:
    """The audit runs in a process whose memory limit is less than half of the file's apparent size."""
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


def test_batch_of_a_million_empty_records_is_not_decompressed_and_reported(tmp_path: Path) -> None:
    """A million and one empty records compress to almost nothing; before the limit, nine million took 25 s and 400 MB."""
    log = sound_log(tmp_path)
    log.batch(build_batch([SimpleRecord(None, None, 0)] * 1_000_001, codec=Codec.ZSTD))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    found = judged(tmp_path)
    assert [sample.evidence["detail"] for sample in found.rules["counts"].samples] == [
        "not opened: zstd: 1000001 records, more than 1000000"
    ]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20


TOO_LARGE = 10**30


@pytest.mark.parametrize("name", [LOG_START_CHECKPOINT, CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT])
def test_checkpoint_with_an_impossible_offset_is_damaged(tmp_path: Path, name: str) -> None:
    sound_log(tmp_path)
    (tmp_path / name).write_text(f"0\n1\nt 0 {TOO_LARGE}\n")
    found = judged(tmp_path)
    assert found.notes == [f"{name}: damaged, not used"]
    assert found.batches == 1


@pytest.mark.parametrize("line", [f"0 {TOO_LARGE}", f"{TOO_LARGE} 0"])
def test_leader_epoch_file_with_impossible_numbers_is_an_unreadable_index(tmp_path: Path, line: str) -> None:
    sound_log(tmp_path)
    (tmp_path / "t-0" / LEADER_EPOCHS).write_text(f"0\n1\n{line}\n")
    assert [sample.kind for sample in judged(tmp_path).rules["indexes"].samples] == ["unreadable index"]


@pytest.mark.parametrize(("suffix", "judges"), [("log", False), ("snapshot", True), ("index", True)])
def test_file_named_after_an_impossible_offset_is_a_problem(tmp_path: Path, suffix: str, judges: bool) -> None:
    log = sound_log(tmp_path)
    (tmp_path / "t-0" / f"{'9' * 20}.{suffix}").write_bytes(log.file.read_bytes())
    found = judged(tmp_path)
    assert [problem for problem in found.problems if "no log has this offset" in problem]
    assert (found.batches == 1) == judges


@pytest.mark.parametrize("kind", ["a FIFO", "a file", "a link to a device"])
def test_file_with_the_name_of_a_partition_directory_is_a_problem(tmp_path: Path, kind: str) -> None:
    sound_log(tmp_path)
    place = tmp_path / "t-1"
    if kind == "a FIFO":
        os.mkfifo(place)
    elif kind == "a file":
        place.touch()
    else:
        place.symlink_to("/dev/zero")
    found = judged(tmp_path)
    assert found.problems == [f"{place}: not a directory, not judged"]
    assert found.batches == 1


def test_many_overlapping_fake_headers_end_the_search_for_batches_early(tmp_path: Path) -> None:
    """Each 61-byte header claims a batch up to the end of the file. Without a limit the search for the next batch takes quadratic time."""
    log = sound_log(tmp_path)
    sound, count = log.file.stat().st_size, 60_000
    size = count * HEADER_BYTES
    head = build_batch(numbered(1))[:HEADER_BYTES]
    with log.file.open("ab") as file:
        file.write(b"\xff" * 17)
        for at in range(0, size, HEADER_BYTES):
            file.write(struct.pack(">qi", 5, size - at - LOG_OVERHEAD) + head[LOG_OVERHEAD:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    found = judged(tmp_path)
    (sample,) = found.rules["crc"].samples
    assert (sample.severity, sample.position, sample.evidence["size_bytes"]) == (Severity.VIOLATION, sound, size + 17)
    assert "the search for batches behind it was given up" in sample.evidence["detail"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 10


def test_reports_escape_terminal_control_characters_of_a_group_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile, shown = "evil\x1b]0;owned\x07\n\u202e", r"evil\u001b]0;owned\u0007\n\u202e"
    pipeline = Pipeline(tmp_path)
    for offset in (5, 2):
        pipeline.commit(offset, group=hostile)
    PartitionWriter(tmp_path, "in", 0).data(5)
    (tmp_path / "lost\x1b[2J").mkdir()
    verdict = audit(tmp_path, engine="duckdb")
    report.show(verdict, 10, Console(file=sys.stdout, width=400))
    output = capsys.readouterr().out
    assert shown in output
    assert r"lost\u001b[2J: passed over" in output
    assert not any(character in output for character in "\x1b\x07\u202e")
    finding = verdict.directories[0].rules["group-offsets"].samples[0]
    verdict.directories[0].rules["crc"].violations = 1
    verdict.directories[0].rules["crc"].samples = [finding]
    junit.write(verdict, tmp_path / "audit.xml")
    assert shown in (tmp_path / "audit.xml").read_text()
    app = typer.Typer()
    app.command()(explain_command)
    result = CliRunner().invoke(app, ["in-0@1", str(tmp_path)])
    assert shown in result.output
    assert "\x1b" not in result.output

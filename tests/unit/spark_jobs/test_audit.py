"""The audit's Python function as a user calls it. The findings of each rule: corpus/test_corpus.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from ottla.spark_jobs.audit import audit, audit_command
from ottla.spark_jobs.corpus.batches import BATCHES as CASES
from ottla.spark_jobs.corpus.writer import T0
from ottla.spark_jobs.sinks import TableFormat
from ottla.spark_jobs.verdict import DirectoryVerdict, Verdict
from tests.support.kafka_logs import PartitionWriter
from tests.support.tables import read_back


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    root = tmp_path_factory.mktemp("logs")
    for name, case in CASES.items():
        case.write(root / name)
    names = ["sound", *(name for name in CASES if name != "sound")]
    return audit([root / name for name in names], key_field="row", retries_absorbed=[7], engine="duckdb")


def of(verdict: Verdict, name: str) -> DirectoryVerdict:
    return next(directory for directory in verdict.directories if Path(directory.path).name == name)


def test_audit_without_paths_raises_and_a_single_path_and_topic_can_be_strings(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no log directory to judge"):
        audit([])
    for name in ("t", "u"):
        PartitionWriter(tmp_path, name, 0).data(3)
    for paths in (tmp_path, str(tmp_path)):
        (judged,) = audit(paths, topics="t", engine="duckdb").directories
        assert (judged.path, judged.topics, judged.problems) == (str(tmp_path), 1, [])


def test_duplicate_finding_names_the_producer_and_the_first_copys_offset(verdict: Verdict) -> None:
    (finding,) = of(verdict, "same_batch_twice").rules["duplicate-sequence"].samples
    assert finding.evidence == {
        "producer_id": 1, "producer_epoch": 0, "base_sequence": 5, "last_sequence": 9, "record_count": 5, "first_offset": 5,
    }  # fmt: skip
    assert finding.file.endswith("t-0/00000000000000000000.log")
    assert Path(finding.file).read_bytes()[finding.position : finding.position + 8] == (15).to_bytes(8, "big")


def test_gap_finding_has_the_number_of_missing_records(verdict: Verdict) -> None:
    (finding,) = of(verdict, "gap").rules["sequence-gap"].samples
    assert finding.evidence["missing"] == 3
    assert finding.evidence["expected_sequence"] == 5
    assert finding.evidence["after_offset"] == 0


def test_counts_cover_every_batch_and_record(verdict: Verdict) -> None:
    sound = of(verdict, "sound")
    assert (sound.topics, sound.partitions, sound.segments, sound.batches, sound.records, sound.producers) == (1, 2, 3, 7, 33, 2)
    assert sound.retries_absorbed == 7
    assert of(verdict, "gap").retries_absorbed is None


def test_transaction_within_the_brokers_own_maximum_timeout_is_only_open(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5, pid=1, seq=0, transactional=True)
    log.data(5, at=T0 + 3_000_000)
    assert run(str(tmp_path))[0] == 1
    assert run(str(tmp_path), "--transaction-max-timeout-ms", "3600000")[0] == 0


def test_skipped_directories_are_named_in_notes(verdict: Verdict) -> None:
    assert [note.split(":")[0] for note in of(verdict, "internal").notes] == [
        "t-0.0123456789abcdef0123456789abcdef-delete", "t-1.0123456789abcdef0123456789abcdef-stray",
    ]  # fmt: skip


def test_json_verdict_has_findings_and_exit_code(verdict: Verdict) -> None:
    report = json.loads(verdict.to_json())
    assert report["exit_code"] == 1
    assert len(report["directories"]) == len(CASES)


def run(*args: str) -> tuple[int, str]:
    app = Typer()
    app.command()(audit_command)
    result = CliRunner().invoke(app, args)
    return result.exit_code, result.output


def test_audit_exits_with_0_on_a_clean_log_and_1_on_violations(tmp_path: Path) -> None:
    CASES["sound"].write(tmp_path / "sound")
    CASES["gap"].write(tmp_path / "gap")
    code, out = run(str(tmp_path / "sound"))
    assert code == 0
    assert "not judged" in out  # the business key, because --key-field is not given
    code, out = run(str(tmp_path / "sound"), str(tmp_path / "gap"), "--json", str(tmp_path / "verdict.json"))
    assert code == 1
    assert "t-0@10" in out
    assert json.loads((tmp_path / "verdict.json").read_text())["exit_code"] == 1


def test_audit_writes_a_findings_table_and_rejects_invalid_table_options(tmp_path: Path) -> None:
    CASES["gap"].write(tmp_path / "gap")
    for _ in range(2):
        code, out = run(str(tmp_path / "gap"), "--tables", str(tmp_path / "tables"), "--format", "delta")
        assert (code, [row["rule"] for row in read_back(TableFormat.DELTA, tmp_path / "tables", "findings")]) == (1, ["sequence-gap"]), out
    code, out = run(str(tmp_path / "gap"), "--format", "delta")
    assert (code, "--format is for --tables DIR" in out) == (2, True)
    code, out = run(str(tmp_path / "gap"), "--tables", "s3://bucket/tables")
    assert (code, "Add --format delta" in out) == (2, True)
    (tmp_path / "mine" / "findings").mkdir(parents=True)
    (tmp_path / "mine" / "findings" / "file").touch()
    code, out = run(str(tmp_path / "gap"), "--tables", str(tmp_path / "mine"))
    assert (code, "holds other files" in out) == (2, True)


def test_a_directory_without_logs_cannot_be_judged(tmp_path: Path) -> None:
    code, out = run(str(tmp_path), str(tmp_path / "missing"))
    assert code == 2
    assert "no partition logs here" in out
    assert "no such directory" in out


def test_audit_without_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    CASES["gap"].write(tmp_path / "gap")
    code, out = run(str(tmp_path / "gap"), "--engine", "spark")
    assert code == 2
    assert "Java 17" in out


def test_verdict_names_its_engine(tmp_path: Path) -> None:
    CASES["gap"].write(tmp_path / "gap")
    _, out = run(str(tmp_path / "gap"), "--json", "-")
    assert json.loads(out)["engine"] == "duckdb"


def test_output_has_no_table_of_rules_if_nothing_was_judged(tmp_path: Path) -> None:
    code, out = run(str(tmp_path / "missing"))
    assert (code, out.splitlines()[0]) == (2, f"could not judge: {tmp_path / 'missing'}: no such directory")


@pytest.mark.parametrize("topics", [["nosuch"], ["t", "nosuch"]])
def test_unknown_topic_cannot_be_judged(tmp_path: Path, topics: list[str]) -> None:
    CASES["sound"].write(tmp_path / "sound")
    code, out = run(str(tmp_path / "sound"), *(word for topic in topics for word in ("--topic", topic)))
    assert code == 2
    assert f"{tmp_path / 'sound'}: no partition of nosuch here" in out


def test_topic_may_be_missing_in_one_of_several_directories(tmp_path: Path) -> None:
    CASES["sound"].write(tmp_path / "a")
    CASES["sound"].write(tmp_path / "b")
    (tmp_path / "b" / "t-0").rename(tmp_path / "b" / "other-0")
    judged = audit([tmp_path / "a", tmp_path / "b"], topics=["t", "other"])
    assert [directory.problems for directory in judged.directories] == [[], []]


@pytest.mark.parametrize("option", ["--json", "--html", "--junit", "--parquet"])
def test_unwritable_report_is_reported_before_the_audit_with_exit_code_2(tmp_path: Path, option: str) -> None:
    CASES["gap"].write(tmp_path / "gap")
    code, out = run(str(tmp_path / "gap"), option, str(tmp_path / "no" / "file"))
    assert (code, "Audit" in out) == (2, False)
    assert f"there is no directory {tmp_path / 'no'}" in out
    code, out = run(str(tmp_path / "gap"), option, str(tmp_path))
    assert (code, "Audit" in out) == (2, False)
    assert f"{tmp_path} is a directory: name a file" in out


@pytest.mark.parametrize("field", ["", "order.", "a..b", 'a"b'])
def test_invalid_key_field_is_rejected(tmp_path: Path, field: str) -> None:
    code, out = run(str(tmp_path), "--key-field", field)
    assert code == 2
    assert "names no key" in out


def test_closed_output_pipe_does_not_change_the_exit_code(tmp_path: Path) -> None:
    CASES["sound"].write(tmp_path / "sound")
    reading, writing = os.pipe()
    os.close(reading)
    audited = subprocess.run(
        [sys.executable, "-m", "ottla", "audit", str(tmp_path / "sound")], stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writing)
    assert (audited.returncode, audited.stderr) == (0, b"")


@pytest.mark.parametrize("field", ["n.id", "$.n.id"])
def test_key_field_can_be_a_dotted_field_or_a_json_path(tmp_path: Path, field: str) -> None:
    CASES["key_twice"].write(tmp_path / "log")
    judged = audit([tmp_path / "log"], key_field=field)
    assert judged.directories[0].rules["business-key"].violations == 1


def test_violations_are_counted_without_samples(tmp_path: Path) -> None:
    CASES["gap"].write(tmp_path / "gap")
    judged = audit([tmp_path / "gap"], samples=0)
    assert (judged.exit_code, judged.directories[0].rules["sequence-gap"].violations) == (1, 1)
    assert judged.directories[0].rules["sequence-gap"].samples == []


@pytest.mark.parametrize("field", ["nn.id", "header:id"])
def test_business_key_that_no_record_has_cannot_be_judged(tmp_path: Path, field: str) -> None:
    CASES["key_twice"].write(tmp_path / "log")
    judged = audit([tmp_path / "log"], key_field=field, engine="duckdb")
    assert judged.exit_code == 2
    assert judged.directories[0].problems == [f"{tmp_path / 'log'}: no record has the key --key-field {field}"]
    assert not judged.directories[0].rules["business-key"].judged


def test_a_log_without_records_has_no_duplicate_key(tmp_path: Path) -> None:
    CASES["sound"].write(tmp_path / "log")
    (tmp_path / "log" / "t-0" / f"{0:020d}.log").write_bytes(b"")
    (tmp_path / "log" / "t-0" / f"{25:020d}.log").write_bytes(b"")
    assert audit([tmp_path / "log"], key_field="row", engine="duckdb").exit_code == 0


def test_unreadable_file_is_reported_and_exits_with_2(tmp_path: Path) -> None:
    CASES["sound"].write(tmp_path / "log")
    epochs = tmp_path / "log" / "t-0" / "leader-epoch-checkpoint"
    epochs.symlink_to("/proc/self/mem")  # a regular file whose first page is not there
    code, out = run(str(tmp_path / "log"))
    assert code == 2
    assert "Could not judge: The logs cannot be read" in out
    assert str(epochs) in out.replace("\n", "")

"""The corpus: planted damage is found, legal logs have no findings, and the score counts false and missing findings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.__main__ import main
from ottla.spark_jobs.corpus.score import Score, details, judge, write


@pytest.fixture(scope="module")
def score(tmp_path_factory: pytest.TempPathFactory) -> Score:
    root = tmp_path_factory.mktemp("corpus")
    write(CASES, root)
    return judge(CASES, root)


def test_audit_finds_exactly_the_planted_violations(score: Score) -> None:
    assert "\n".join(details(score)) == ""
    assert score.cases == len(CASES)


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_each_rule_has_planted_violations_and_finds_them(score: Score, rule: str) -> None:
    assert score.planted[rule] > 0
    assert score.found[rule] == score.planted[rule]


def test_violation_reported_as_a_warning_is_missed_and_a_false_alarm() -> None:
    score = Score()
    score.add("log", [("crc", "violation", "wrong CRC", "t-0@5")], [("crc", "warning", "wrong CRC", "t-0@5")])
    assert not score.perfect
    assert details(score) == [
        "missed       log: crc violation wrong CRC t-0@5",
        "false alarm  log: crc warning wrong CRC t-0@5",
    ]


def test_corpus_command_writes_each_log_to_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["corpus", str(tmp_path / "logs")])
    assert main() == 0
    assert "t-0@10  violation of sequence-gap: sequence gap" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "logs").iterdir()} == set(CASES)

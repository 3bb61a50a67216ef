"""Transactions in the audit: what was planted is found, what is legal is not, all in one run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from spark_jobs import planted
from spark_jobs.audit import audit
from spark_jobs.verdict import DirectoryVerdict, Verdict
from tests.unit.spark_jobs.transactions_corpus import TRANSACTIONS


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    root = tmp_path_factory.mktemp("logs")
    for name, case in TRANSACTIONS.items():
        case.write(root / name)
    return audit([root / name for name in TRANSACTIONS], engine="duckdb")


def of(verdict: Verdict, name: str) -> DirectoryVerdict:
    return next(directory for directory in verdict.directories if Path(directory.path).name == name)


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_transactions_give_exactly_the_findings_that_were_planted(verdict: Verdict, name: str) -> None:
    found = [(f.rule, str(f.severity), f.kind, f.where) for result in of(verdict, name).rules.values() for f in result.samples]
    assert sorted(found) == sorted(TRANSACTIONS[name].expected)


def test_a_hanging_transaction_shows_whose_it_is_and_what_it_holds_up(verdict: Verdict) -> None:
    finding = next(f for f in of(verdict, "planted").rules["hanging-transaction"].samples if f.kind == "over its timeout")
    assert finding.evidence == {
        "producer_id": planted.HANGING, "producer_epoch": 0, "last_stable_offset": 8, "age_ms": 3 * planted.MINUTE_MS,
        "transactional_id": "hanging", "coordinator": "Ongoing", "timeout_ms": planted.MINUTE_MS,
    }  # fmt: skip


def test_the_command_says_what_it_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["planted", str(tmp_path / "planted")])
    planted.main()
    assert "payments-1@8  hanging-transaction: over its timeout" in capsys.readouterr().out
    assert (tmp_path / "planted" / "payments-1" / f"{0:020d}.log").stat().st_size > 0

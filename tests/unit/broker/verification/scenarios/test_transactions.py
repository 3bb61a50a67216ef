from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.verification.judge import Guarantee, ScenarioOutcome
from ottla.broker.verification.scenarios.transactions import SCENARIOS
from tests.support.verifications import broken, outcomes, program, results

NAMES = [each.name for each in SCENARIOS]


def test_transactional_producer_that_reads_back_its_commits_holds_in_all_scenarios(tmp_path: Path) -> None:
    found = results(tmp_path, program("transactional"), *NAMES)
    assert {name: each.outcome for name, each in found.items()} == dict.fromkeys(NAMES, ScenarioOutcome.HELD)
    assert found["transaction-timeout"].ending.restarts == 1, "it was refused, ended and was started again"


def test_transaction_version_1_client_is_exposed_to_a_late_end_txn(tmp_path: Path) -> None:
    found = results(tmp_path, program("transactional", "--v1"), "delayed-end-txn")["delayed-end-txn"]
    assert found.outcome is ScenarioOutcome.EXPOSED
    assert "EndTxn version 4" in found.note


@pytest.mark.parametrize(
    ("flags", "name", "guarantee"),
    [
        (("--ignore-aborts",), "transaction-timeout", Guarantee.COMPLETE),
        (("--begin-again",), "coordinator-failover", Guarantee.ONCE),
        (("--keep-id", "--no-read-back"), "epoch-exhaustion", Guarantee.ONCE),
    ],
)
def test_a_mistake_breaks_its_guarantee(tmp_path: Path, flags: tuple[str, ...], name: str, guarantee: Guarantee) -> None:
    assert broken(tmp_path, program("transactional", *flags), name) == {name: [guarantee]}


def test_epoch_exhaustion_is_not_met_with_new_transactional_ids(tmp_path: Path) -> None:
    assert outcomes(tmp_path, program("transactional", "--new-id"), "epoch-exhaustion") == {"epoch-exhaustion": ScenarioOutcome.NOT_MET}


def test_transaction_scenarios_do_not_apply_without_transactions(tmp_path: Path) -> None:
    assert outcomes(tmp_path, program("plain"), *NAMES) == dict.fromkeys(NAMES, ScenarioOutcome.DOES_NOT_APPLY)


def test_correct_stream_program_holds_in_transaction_scenarios(tmp_path: Path) -> None:
    names = ("transaction-timeout", "coordinator-failover")
    assert outcomes(tmp_path, program("stream"), *names) == dict.fromkeys(names, ScenarioOutcome.HELD)

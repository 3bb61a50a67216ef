"""Group members: each scenario holds for a correct program and is broken by an incorrect one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.verification.judge import Guarantee, ScenarioOutcome
from ottla.broker.verification.scenarios.groups import SCENARIOS
from tests.support.verifications import broken, outcomes, program

NAMES = [each.name for each in SCENARIOS]


@pytest.mark.parametrize("mode", ["stream", "consumer"])
def test_group_member_that_resumes_at_the_commit_holds(tmp_path: Path, mode: str) -> None:
    assert outcomes(tmp_path, program(mode), *NAMES) == dict.fromkeys(NAMES, ScenarioOutcome.HELD)


def test_group_member_that_rewinds_at_each_assignment_duplicates(tmp_path: Path) -> None:
    assert broken(tmp_path, program("consumer", "--rewinds"), *NAMES) == {name: [Guarantee.ONCE] for name in NAMES}


def test_effects_before_a_rejected_commit_are_duplicated_when_the_member_is_expelled(tmp_path: Path) -> None:
    assert broken(tmp_path, program("consumer", "--append"), "expelled-member") == {"expelled-member": [Guarantee.ONCE]}


def test_rebalance_is_not_met_by_a_consumer_without_a_shared_group(tmp_path: Path) -> None:
    assert outcomes(tmp_path, program("consumer", "--alone"), "rebalance") == {"rebalance": ScenarioOutcome.NOT_MET}


def test_group_scenarios_do_not_apply_without_a_group(tmp_path: Path) -> None:
    assert outcomes(tmp_path, program("plain"), *NAMES) == dict.fromkeys(NAMES, ScenarioOutcome.DOES_NOT_APPLY)

"""Share group members in scenarios; tests/scenario/test_samples.py runs whole programs through them."""

from __future__ import annotations

from pathlib import Path

from ottla.broker.verification.judge import ScenarioOutcome
from ottla.broker.verification.scenarios.shares import SCENARIOS
from tests.support.verifications import outcomes, program

NAMES = [each.name for each in SCENARIOS]


def test_share_group_scenarios_do_not_apply_without_a_share_group(tmp_path: Path) -> None:
    assert outcomes(tmp_path, program("consumer"), *NAMES) == dict.fromkeys(NAMES, ScenarioOutcome.DOES_NOT_APPLY)

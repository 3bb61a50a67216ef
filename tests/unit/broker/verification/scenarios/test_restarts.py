"""Processes that die or are replaced: each scenario holds for a correct program and is broken by an incorrect one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.verification.judge import Guarantee, ScenarioOutcome
from ottla.broker.verification.scenarios.restarts import SCENARIOS
from tests.support.verifications import broken, outcomes, program

NAMES = [each.name for each in SCENARIOS]


@pytest.mark.parametrize("mode", ["transactional", "stream", "consumer"])
def test_program_that_tracks_its_progress_holds_in_restart_scenarios(tmp_path: Path, mode: str) -> None:
    assert outcomes(tmp_path, program(mode), *NAMES) == dict.fromkeys(NAMES, ScenarioOutcome.HELD)


def test_idempotent_producer_duplicates_after_a_restart(tmp_path: Path) -> None:
    assert broken(tmp_path, program("idempotent"), *NAMES) == {name: [Guarantee.ONCE] for name in NAMES}


def test_new_transactional_id_at_each_start_fences_no_zombie(tmp_path: Path) -> None:
    assert broken(tmp_path, program("transactional", "--new-id"), "zombie-restart") == {"zombie-restart": [Guarantee.ONCE]}


@pytest.mark.parametrize(
    ("mode", "flag", "guarantee"),
    [
        ("consumer", "--append", Guarantee.ONCE),
        ("consumer", "--commit-first", Guarantee.COMPLETE),
        ("stream", "--plain", Guarantee.ONCE),
    ],
)
def test_effects_apart_from_the_offset_commit_break_a_guarantee_in_a_crash(
    tmp_path: Path, mode: str, flag: str, guarantee: Guarantee
) -> None:
    assert broken(tmp_path, program(mode, flag), "crash-restart") == {"crash-restart": [guarantee]}

"""Group members: each scenario holds for a correct program and is broken by an incorrect one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.verification.judge import Guarantee, Standing
from ottla.broker.verification.scenarios.groups import SCENARIOS
from tests.support.verifications import broken, program, standings

NAMES = [each.name for each in SCENARIOS]


@pytest.mark.parametrize("mode", ["stream", "consumer"])
def test_a_member_that_goes_on_where_the_work_stands_holds(tmp_path: Path, mode: str) -> None:
    assert standings(tmp_path, program(mode), *NAMES) == dict.fromkeys(NAMES, Standing.HELD)


def test_a_member_that_begins_again_at_each_assignment_shows(tmp_path: Path) -> None:
    assert broken(tmp_path, program("consumer", "--rewinds"), *NAMES) == {name: [Guarantee.ONCE] for name in NAMES}


def test_effects_before_a_commit_that_is_refused_show_when_expelled(tmp_path: Path) -> None:
    assert broken(tmp_path, program("consumer", "--append"), "expelled-member") == {"expelled-member": [Guarantee.ONCE]}


def test_a_program_that_lets_nobody_join_has_not_met_them(tmp_path: Path) -> None:
    assert standings(tmp_path, program("consumer", "--alone"), "rebalance") == {"rebalance": Standing.NOT_MET}


def test_programs_without_a_group_are_not_asked(tmp_path: Path) -> None:
    assert standings(tmp_path, program("plain"), *NAMES) == dict.fromkeys(NAMES, Standing.DOES_NOT_APPLY)

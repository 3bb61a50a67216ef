"""Brokers of a cluster that die, restart and lose leadership: each scenario holds for a correct program and is broken by an incorrect
one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.verification.judge import Guarantee, ScenarioOutcome
from ottla.broker.verification.scenarios.leaders import SCENARIOS
from tests.support.verifications import broken, outcomes, program, results

NAMES = [each.name for each in SCENARIOS]
OF_WRITERS = {"leader-killed-unreplicated", "not-enough-replicas", "unclean-election"}


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("transactional", [name for name in NAMES if name != "unclean-election"]),
        ("stream", ["leader-killed-before-ack", "zombie-leader", "coordinator-moved"]),
    ],
)
def test_program_with_acks_all_that_tracks_its_progress_holds_in_leader_scenarios(tmp_path: Path, mode: str, names: list[str]) -> None:
    assert outcomes(tmp_path, program(mode), *names) == dict.fromkeys(names, ScenarioOutcome.HELD)


def test_consumer_holds_in_coordinator_scenarios_and_writer_scenarios_do_not_apply(tmp_path: Path) -> None:
    wanted = {name: ScenarioOutcome.DOES_NOT_APPLY if name in OF_WRITERS else ScenarioOutcome.HELD for name in NAMES}
    assert outcomes(tmp_path, program("consumer"), *NAMES) == wanted


def test_acks_1_records_are_lost_with_their_leader(tmp_path: Path) -> None:
    found = results(tmp_path, program("plain", "--acks-one"), "leader-killed-after-ack", "leader-killed-unreplicated", "zombie-leader")
    assert found["leader-killed-after-ack"].outcome is ScenarioOutcome.HELD, "all replicas had it"
    for name in ("leader-killed-unreplicated", "zombie-leader"):
        assert [each.guarantee for each in found[name].breaches] == [Guarantee.COMPLETE], name
        assert "was acknowledged at output-" in found[name].breaches[0].explanation


def test_not_enough_replicas_is_not_met_by_a_producer_with_acks_1(tmp_path: Path) -> None:
    assert outcomes(tmp_path, program("plain", "--acks-one"), "not-enough-replicas") == {"not-enough-replicas": ScenarioOutcome.NOT_MET}


@pytest.mark.parametrize(
    ("mode", "flags", "name", "guarantee"),
    [
        ("plain", (), "leader-killed-before-ack", Guarantee.ONCE),
        ("careless", (), "not-enough-replicas", Guarantee.COMPLETE),
        ("transactional", ("--begin-again",), "coordinator-moved", Guarantee.ONCE),
    ],
)
def test_a_mistake_breaks_its_guarantee(tmp_path: Path, mode: str, flags: tuple[str, ...], name: str, guarantee: Guarantee) -> None:
    assert broken(tmp_path, program(mode, *flags), name) == {name: [guarantee]}


def test_loss_by_an_unclean_election_is_attributed_to_the_setting(tmp_path: Path) -> None:
    found = results(tmp_path, program("plain"), "unclean-election")["unclean-election"]
    assert found.outcome is ScenarioOutcome.LOST_BY_SETTING
    (breach,) = found.breaches
    assert (breach.guarantee, breach.by_setting) == (Guarantee.COMPLETE, True)
    assert "acknowledged records or commits were lost by the election" in breach.summary
    assert "unclean.leader.election.enable=true" in found.note


def test_programs_mistake_after_an_unclean_election_is_attributed_to_the_program(tmp_path: Path) -> None:
    found = results(tmp_path, program("idempotent"), "unclean-election")["unclean-election"]
    assert found.outcome is ScenarioOutcome.BROKEN
    assert {Guarantee.COMPLETE, Guarantee.ONCE} <= {each.guarantee for each in found.breaches}, "it was refused, and began anew"


def test_coordinator_moved_does_not_apply_without_commits(tmp_path: Path) -> None:
    assert outcomes(tmp_path, program("plain"), "coordinator-moved") == {"coordinator-moved": ScenarioOutcome.DOES_NOT_APPLY}

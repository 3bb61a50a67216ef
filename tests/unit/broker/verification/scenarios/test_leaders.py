"""Brokers of a cluster that die, restart and lose leadership: each scenario holds for a correct program and is broken by an incorrect
one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.verification.judge import Guarantee, Standing
from ottla.broker.verification.scenarios.leaders import SCENARIOS
from tests.support.verifications import broken, program, results, standings

NAMES = [each.name for each in SCENARIOS]
OF_WRITERS = {"leader-killed-unreplicated", "not-enough-replicas", "unclean-election"}


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("transactional", [name for name in NAMES if name != "unclean-election"]),
        ("stream", ["leader-killed-before-ack", "zombie-leader", "coordinator-moved"]),
    ],
)
def test_a_program_that_waits_for_all_replicas_and_knows_how_far_it_came_holds(tmp_path: Path, mode: str, names: list[str]) -> None:
    assert standings(tmp_path, program(mode), *names) == dict.fromkeys(names, Standing.HELD)


def test_a_consumer_meets_those_that_befall_the_coordinator(tmp_path: Path) -> None:
    wanted = {name: Standing.DOES_NOT_APPLY if name in OF_WRITERS else Standing.HELD for name in NAMES}
    assert standings(tmp_path, program("consumer"), *NAMES) == wanted


def test_what_the_leader_alone_acknowledged_dies_with_it(tmp_path: Path) -> None:
    found = results(tmp_path, program("plain", "--acks-one"), "leader-killed-after-ack", "leader-killed-unreplicated", "zombie-leader")
    assert found["leader-killed-after-ack"].standing is Standing.HELD, "all replicas had it"
    for name in ("leader-killed-unreplicated", "zombie-leader"):
        assert [each.guarantee for each in found[name].breaches] == [Guarantee.COMPLETE], name
        assert "was acknowledged at output-" in found[name].breaches[0].explanation


def test_a_program_that_asks_one_replica_only_never_hears_that_there_are_too_few(tmp_path: Path) -> None:
    assert standings(tmp_path, program("plain", "--acks-one"), "not-enough-replicas") == {"not-enough-replicas": Standing.NOT_MET}


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


def test_an_unclean_election_is_the_settings_fault_and_told_so(tmp_path: Path) -> None:
    found = results(tmp_path, program("plain"), "unclean-election")["unclean-election"]
    assert found.standing is Standing.LOST_BY_SETTING
    (breach,) = found.breaches
    assert (breach.guarantee, breach.by_setting) == (Guarantee.COMPLETE, True)
    assert "acknowledged records or commits were lost by the election" in breach.says
    assert "unclean.leader.election.enable=true" in found.note


def test_what_a_program_does_wrong_after_an_unclean_election_is_its_own_fault(tmp_path: Path) -> None:
    found = results(tmp_path, program("idempotent"), "unclean-election")["unclean-election"]
    assert found.standing is Standing.BROKEN
    assert {Guarantee.COMPLETE, Guarantee.ONCE} <= {each.guarantee for each in found.breaches}, "it was refused, and began anew"


def test_programs_that_commit_nothing_have_no_coordinator_to_lose(tmp_path: Path) -> None:
    assert standings(tmp_path, program("plain"), "coordinator-moved") == {"coordinator-moved": Standing.DOES_NOT_APPLY}

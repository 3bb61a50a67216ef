"""The simulation: that the same plan is the same run, what it bears, and how a failed one is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.layout import CONTROLLER_ID
from ottla.broker.sim.campaign import shrunk, story
from ottla.broker.sim.mutations import MUTATIONS, found
from ottla.broker.sim.nemesis import Fault
from ottla.broker.sim.simulation import Outcome, Plan, simulate

KILL_AND_PAUSE = (Fault(1_500, "kill", 1, 2, 3_000, 0.5), Fault(2_500, "pause", 2, 3, 12_000, 0.5))
SMALL = Plan(1, synced=False, work_ms=6_000, faults=KILL_AND_PAUSE)


def test_a_cluster_whose_leaders_are_killed_and_paused_under_idempotent_producers_loses_and_doubles_nothing() -> None:
    outcome = simulate(SMALL)
    assert outcome.violations == []
    assert [fault.kind for fault in outcome.happened] == ["kill", "pause"]
    assert outcome.acknowledged > 30


def test_a_controller_that_is_killed_paused_and_cut_off_from_power_comes_back_from_its_disk_and_brokers_serve_meanwhile() -> None:
    faults = (
        Fault(500, "kill", CONTROLLER_ID, 1, 2_000, 0.5),
        Fault(1_000, "kill", 1, 2, 500, 0.5),
        Fault(3_000, "power", CONTROLLER_ID, 1, 500, 0.5),
        Fault(4_000, "pause", CONTROLLER_ID, 1, 1_500, 0.5),
    )
    outcome = simulate(replace(SMALL, faults=faults))
    assert (outcome.violations, len(outcome.happened)) == ([], 4)
    assert outcome.acknowledged > 30


def test_the_same_plan_is_the_same_run_and_another_seed_is_another() -> None:
    plan = replace(SMALL, work_ms=2_000)
    first, again, other = simulate(plan), simulate(plan), simulate(replace(plan, seed=2))
    assert (first.digest, first.turns) == (again.digest, again.turns)
    assert first.digest != other.digest


def test_a_failed_seed_is_shrunk_to_the_faults_that_it_needs() -> None:
    faults = tuple(Fault(at, "cut", at % 3 + 1, 1, 10, 0.5) for at in range(1_000, 1_020))
    needed = {faults[3], faults[11]}

    def simulated(plan: Plan) -> Outcome:
        return Outcome(plan, list(plan.faults), ["broken"] if needed <= set(plan.faults) else [])

    least = shrunk(simulated(replace(SMALL, faults=faults)), simulated)
    assert set(least.plan.faults) == needed
    told = story(least, lambda seed: f"again {seed}")
    assert told[0].startswith("Seed 1 fails in step ")
    assert told[1:3] == ["  broken", "  faults (2):"]
    assert told[-1] == "  again: again 1"


def test_copiers_that_die_or_freeze_amid_transactions_copy_everything_once() -> None:
    faults = (
        Fault(1_000, "client dies", 1, 2, 1_500, 0.5),
        Fault(1_500, "zombie client", 2, 3, 2_500, 0.5),
        Fault(3_000, "kill", 2, 3, 1_000, 0.5),
        Fault(4_500, "zombie client", 1, 3, 1_000, 0.5),
    )
    outcome = simulate(replace(SMALL, faults=faults))
    assert (outcome.violations, len(outcome.happened)) == ([], 4)


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_seed_holds(seed: int) -> None:
    assert simulate(Plan.of(seed)).violations == []


@pytest.mark.parametrize("rule", ["last 5 batches", "partition has its marker"])
def test_a_rule_that_is_broken_is_found_in_few_seeds(rule: str) -> None:
    broken = next(each for each in MUTATIONS if rule in each.rule)
    assert found(broken, range(1, 11)) is not None


def test_a_rule_is_whole_again_after_its_mutation() -> None:
    before = {(each.owner, each.name): each.owner.__dict__[each.name] for each in MUTATIONS}
    for each in MUTATIONS:
        with each.made():
            assert each.owner.__dict__[each.name] is not before[each.owner, each.name]
    assert {(each.owner, each.name): each.owner.__dict__[each.name] for each in MUTATIONS} == before

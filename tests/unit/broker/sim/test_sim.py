"""The simulation: a plan always gives the same run, the invariants hold under every fault, and a failure is described."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import Parameter, signature
from typing import Any

import pytest

from ottla.broker.core.log_config import INT64_MAX
from ottla.broker.layout import CONTROLLER_ID
from ottla.broker.sim import sim_judge
from ottla.broker.sim.campaign import failure_report, shrunk
from ottla.broker.sim.disk_audit import audited
from ottla.broker.sim.mutation import Mutation
from ottla.broker.sim.mutations import MUTATIONS, found
from ottla.broker.sim.nemesis import POWER, STALLS, Fault
from ottla.broker.sim.simulation import SOURCE, Outcome, Plan, Simulation, simulate

KILL_AND_PAUSE = (Fault(1_500, "kill", 1, 2, 3_000, 0.5), Fault(2_500, "pause", 2, 3, 12_000, 0.5))
UNCLEAN_SEEDS = (5, *range(1, 60))
"""In some of them an unclean election loses something: which, changes with every change of scheduling. The first one did."""
SMALL = Plan(1, synced=False, work_ms=6_000, faults=KILL_AND_PAUSE)


def test_killed_and_paused_leaders_lose_or_duplicate_no_record_of_idempotent_producers() -> None:
    outcome = simulate(SMALL)
    assert outcome.violations == []
    assert [fault.kind for fault in outcome.happened] == ["kill", "pause"]
    assert outcome.acknowledged > 30
    deliveries, accepted, _ = outcome.shared
    assert deliveries > accepted > 100, "the share group had records again that it released"


def test_killed_paused_and_unpowered_controller_recovers_while_brokers_serve() -> None:
    faults = (
        Fault(500, "kill", CONTROLLER_ID, 1, 2_000, 0.5),
        Fault(1_000, "kill", 1, 2, 500, 0.5),
        Fault(3_000, "power", CONTROLLER_ID, 1, 500, 0.5),
        Fault(4_000, "pause", CONTROLLER_ID, 1, 1_500, 0.5),
    )
    outcome = simulate(replace(SMALL, faults=faults))
    assert (outcome.violations, len(outcome.happened)) == ([], 4)
    assert outcome.acknowledged > 30


def test_same_plan_gives_the_same_run_and_another_seed_differs() -> None:
    plan = replace(SMALL, work_ms=2_000)
    first, again, other = simulate(plan), simulate(plan), simulate(replace(plan, seed=2))
    assert (first.digest, first.turns) == (again.digest, again.turns)
    assert first.digest != other.digest


def test_failed_seed_is_shrunk_to_the_necessary_faults() -> None:
    faults = tuple(Fault(at, "cut", at % 3 + 1, 1, 10, 0.5) for at in range(1_000, 1_020))
    needed = {faults[3], faults[11]}

    def simulated(plan: Plan) -> Outcome:
        return Outcome(plan, list(plan.faults), ["broken"] if needed <= set(plan.faults) else [])

    least = shrunk(simulated(replace(SMALL, faults=faults)), simulated)
    assert set(least.plan.faults) == needed
    text = failure_report(least, lambda seed: f"again {seed}")
    assert text[0].startswith("Seed 1 fails in step ")
    assert text[1:3] == ["  broken", "  faults (2):"]
    assert text[-1] == "  again: again 1"


def test_flush_messages_keeps_acknowledged_records_when_all_brokers_lose_power() -> None:
    faults = (Fault(1_500, POWER, 1, 2, 800, 0.2), Fault(3_500, POWER, 2, 3, 800, 0.2))
    outcome = simulate(replace(SMALL, synced=True, faults=faults))
    assert (outcome.violations, len(outcome.happened)) == ([], 2)
    assert outcome.acknowledged > 30


def test_killed_or_paused_transactional_copiers_copy_each_record_once() -> None:
    faults = (
        Fault(1_000, "client dies", 1, 2, 1_500, 0.5),
        Fault(1_500, "zombie client", 2, 3, 2_500, 0.5),
        Fault(3_000, "kill", 2, 3, 1_000, 0.5),
        Fault(4_500, "zombie client", 1, 3, 1_000, 0.5),
    )
    outcome = simulate(replace(SMALL, faults=faults))
    assert (outcome.violations, len(outcome.happened)) == ([], 4)


def test_simulation_leaves_no_garbage_for_later_tests() -> None:
    simulate(Plan.of(6))  # one collection would leave most of it, because clean-up code makes new garbage
    assert gc.collect() == 0


def test_unclean_election_losses_are_counted_and_a_violation_where_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, outcome = next((plan, outcome) for plan in map(Plan.of, UNCLEAN_SEEDS) if (outcome := simulate(plan)).lost)
    assert (outcome.violations, outcome.unclean > 0) == ([], True)
    monkeypatch.setattr(sim_judge, "divergence_offset", lambda *_: INT64_MAX)
    assert simulate(plan).violations


def test_audit_judges_the_simulated_disks_at_the_end() -> None:
    run = Simulation(replace(SMALL, work_ms=1_000, faults=()))
    run.run(Outcome(run.plan))
    assert audited(run.cluster, [SOURCE]) == []
    (log,) = (found for path, found in run.cluster.nodes[1].files.nodes.items() if path.match("t-0/*.log"))
    log.data[-1] ^= 1
    assert any("/node1" in text for text in audited(run.cluster, [SOURCE]))


@pytest.mark.parametrize("seed", range(1, 5))
def test_simulated_seed_violates_no_invariant(seed: int) -> None:
    assert simulate(Plan.of(seed)).violations == []


def slow_disks_lose_power(seed: int) -> Plan:
    """Return a plan in which the power of all brokers fails three times while the disks of two brokers are slow."""
    faults = []
    for at_ms in (1_000, 4_000, 7_000):
        faults += [Fault(at_ms, STALLS, (seed + i) % 3 + 1, 1, 2_000, 0.5) for i in range(2)]
        faults.append(Fault(at_ms + 1_000, POWER, seed % 3 + 1, 2, 500, 0.01))
    return Plan(seed, synced=True, work_ms=9_000, faults=tuple(faults), admin_ms=3_000)


def test_fetching_before_the_sync_is_detected_as_a_violation() -> None:
    """Random plans seldom cut the power within the milliseconds of a sync, so this plan does so on purpose."""
    (broken,) = (each for each in MUTATIONS if "fetches more" in each.rule)
    with broken.made():
        assert any(simulate(slow_disks_lose_power(seed)).violations for seed in range(1, 9))
    assert simulate(slow_disks_lose_power(1)).violations == []


@pytest.mark.parametrize("rule", ["leaves the ISR", "a reassignment ends", "diverging log", "another leader epoch", "an acceptance"])
def test_mutated_rule_is_detected_within_ten_seeds(rule: str) -> None:
    (broken,) = (each for each in MUTATIONS if rule in each.rule)
    assert found(broken, range(1, 11)) is not None


def parts_of(mutation: Mutation) -> Iterator[Mutation]:
    yield mutation
    if mutation.also is not None:
        yield mutation.also


def stands_at(part: Mutation) -> Callable[..., Any]:
    found = part.owner.__dict__[part.name]
    return found.fget if isinstance(found, property) else found


def test_mutation_has_the_signature_of_the_rule_it_replaces() -> None:
    """A replacement with another signature would make a campaign fail with TypeError, which would count as having found the broken rule."""
    for part in (part for each in MUTATIONS for part in parts_of(each)):
        wanted = signature(stands_at(part)).parameters.values()
        named = {each.name: None for each in wanted if each.kind is Parameter.KEYWORD_ONLY}
        with part.made():
            broken = signature(stands_at(part))
        for needed in (False, True):
            places = [
                each for each in wanted if each.kind is Parameter.POSITIONAL_OR_KEYWORD and not (needed and each.default is not each.empty)
            ]
            broken.bind(*places, **named)


def test_mutated_rule_is_restored_afterwards() -> None:
    for each in MUTATIONS:
        parts = list(parts_of(each))
        before = [part.owner.__dict__[part.name] for part in parts]
        with each.made():
            assert all(part.owner.__dict__[part.name] is not whole for part, whole in zip(parts, before, strict=True))
        assert [part.owner.__dict__[part.name] for part in parts] == before
